"""LibriSpeech's layout: <root>/<split>/<speaker>/<chapter>/*.flac and <speaker>-<chapter>.trans.txt.

Panayotov et al. 2015; the corpus of papers/003 §2.8 and papers/004 §4.3. AN4 and the built-in corpus lie so too.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from asr_ablations.data.alphabet import normalise
from asr_ablations.data.corpus import Corpus, entries, faulty, file_utterance, folders_in, listed, text_of
from asr_ablations.data.utterance import Utterance
from asr_ablations.tools.errors import UsageError


class Folders(Corpus):
    """A corpus in LibriSpeech's layout: each split is a folder under the root."""

    def prepare(self) -> None:
        if self.root is None:
            raise UsageError(
                f"data.root is not set: the folder that holds {', '.join(self.folders())}; "
                f"to prepare it: {self.prepare_command()}"
            )
        for name in self.missing():
            raise UsageError(
                f"data.root={self.root}: no folder {name} in it (expected {', '.join(self.folders())}); "
                f"to prepare it: {self.prepare_command()}"
            )

    def missing(self) -> list[str]:
        """Splits that are not under the root."""
        assert self.root is not None
        return [name for name in self.folders() if not (self.root / name).exists()]

    def find(self, split: str) -> list[Utterance]:
        assert self.root is not None
        return list_folder(self.root / split)

    def write(self, split: str, utterances: Iterable[Utterance]) -> None:
        """Each speaker in one chapter, with copies of the audio files, which must be flac."""
        assert self.root is not None
        for u in utterances:
            chapter = self.root / split / u.speaker / "1"
            chapter.mkdir(parents=True, exist_ok=True)
            shutil.copy(u.audio, chapter / f"{u.id}.flac")
            with (chapter / f"{u.speaker}-1.trans.txt").open("a", encoding="utf-8") as transcripts:
                transcripts.write(f"{u.id} {u.text.upper()}\n")


class LibriSpeech(Folders):
    """named: training sets of several splits under one name, as clean460. download: `address` of the archives
    <split>.tar.gz and their SHA-256 by split.
    """

    def __init__(
        self,
        *,
        root: str | Path | None,
        train: str | Sequence[str],
        named: Mapping[str, Sequence[str]],
        download: Mapping[str, object],
        **options: object,
    ) -> None:
        super().__init__(root=root, train=train, **options)  # type: ignore[arg-type]
        self.train = [split for name in listed(train) for split in named.get(name, [name])]
        self.download = download
        # torchaudio and the archives themselves put a folder LibriSpeech around the splits
        if self.root is not None and self.missing() and (self.root / "LibriSpeech").is_dir():
            self.root = self.root / "LibriSpeech"

    def fetch(self) -> None:
        """Download, verify and unpack the splits that are not there."""
        from asr_ablations.data.archives import fetch

        if self.root is not None:
            fetch(self.missing(), self.root, **self.download)  # type: ignore[arg-type]
        self.prepare()


def list_folder(folder: Path) -> list[Utterance]:
    """What the transcripts of a split name, in their order, and what lies there without a transcript. Raises
    UsageError where nothing does.
    """
    found = [utterance for speaker in folders_in(folder) for utterance in _list_speaker(speaker)]
    if not found:
        raise UsageError(f"no utterances in {folder} (expected <speaker>/<chapter>/*.trans.txt)")
    return found


def _list_speaker(speaker: Path | Utterance) -> Iterator[Utterance]:
    if isinstance(speaker, Utterance):
        yield speaker
        return
    for chapter in folders_in(speaker):
        if isinstance(chapter, Utterance):
            yield chapter
        else:
            yield from _list_chapter(chapter)


def _list_chapter(chapter: Path) -> Iterator[Utterance]:
    inside = entries(chapter)
    yield from (path for path in inside if isinstance(path, Utterance))
    paths = {path.name: path for path in inside if isinstance(path, Path)}
    for name in [name for name in paths if name.endswith(".trans.txt")]:
        for line in filter(None, map(str.strip, text_of(paths[name]).splitlines())):
            id_, _, text = line.partition(" ")
            file = paths.pop(f"{id_}.flac", None) or chapter / f"{id_}.flac"
            yield file_utterance(id_, chapter.parent.name, file, normalise(text))
    for name, file in paths.items():
        if name.endswith(".flac"):
            yield faulty(file.stem, file, "audio without a transcript: no line in the chapter's *.trans.txt")
