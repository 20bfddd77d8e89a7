"""LibriSpeech's layout: <root>/<split>/<speaker>/<chapter>/*.flac and <speaker>-<chapter>.trans.txt.

Panayotov et al. 2015; the corpus of papers/003 §2.8 and papers/004 §4.3. AN4 and the built-in corpus lie so too.
"""

from collections.abc import Sequence
from pathlib import Path

from asr_ablations.data import audio
from asr_ablations.data.alphabet import normalise
from asr_ablations.data.utterance import Utterance
from asr_ablations.errors import UsageError


class LibriSpeech:
    """A corpus in LibriSpeech's layout. train, validation, test: names of splits, each a folder under `root`."""

    def __init__(
        self,
        *,
        root: str | Path | None,
        train: Sequence[str],
        validation: Sequence[str],
        test: Sequence[str],
        language: str,
        alphabet: str,
    ) -> None:
        self.root = Path(root).expanduser() if root else None
        self.train, self.validation, self.test = list(train), list(validation), list(test)
        self.language, self.characters = language, alphabet

    def prepare(self) -> None:
        """See that every split is there. Raises UsageError with the folder that is missing."""
        if self.root is None:
            raise UsageError(f"data.root is not set: the folder that holds {', '.join(self.folders())}")
        for name in self.folders():
            if not (self.root / name).is_dir():
                raise UsageError(
                    f"data.root={self.root}: no folder {name} in it (expected {', '.join(self.folders())})"
                )

    def folders(self) -> list[str]:
        """Folders that must lie under the root."""
        return list(dict.fromkeys([*self.train, *self.validation, *self.test]))

    def read(self, split: str) -> list[Utterance]:
        """The utterances of one split, in the order of their ids."""
        assert self.root is not None
        return read_folder(self.root / split)


def read_folder(folder: Path) -> list[Utterance]:
    """Utterances of a folder in LibriSpeech's layout. Raises UsageError for a missing or unlisted file."""
    utterances = []
    for transcripts in sorted(folder.glob("*/*/*.trans.txt")):
        speaker = transcripts.parent.parent.name
        for number, line in enumerate(transcripts.read_text(encoding="utf-8").splitlines(), start=1):
            id_, _, text = line.strip().partition(" ")
            if not id_:
                continue
            file = transcripts.parent / f"{id_}.flac"
            if not file.is_file():
                raise UsageError(f"{transcripts}:{number}: no audio file {file.name} beside it")
            utterances.append(Utterance(id_, speaker, file, 0.0, audio.duration(file), normalise(text)))
    if not utterances:
        raise UsageError(f"no utterances in {folder} (expected <speaker>/<chapter>/*.trans.txt)")
    return utterances
