"""Multilingual LibriSpeech's layout (Pratap et al. 2020): <root>/<split>/transcripts.txt with lines of
`<speaker>_<book>_<number> TAB <text>`, and <root>/<split>/audio/<speaker>/<book>/<speaker>_<book>_<number>.flac.
"""

from pathlib import Path

from asr_ablations.components.data.librispeech import Folders
from asr_ablations.data.alphabet import normalise
from asr_ablations.data.corpus import faulty, file_utterance, text_of
from asr_ablations.data.utterance import Utterance
from asr_ablations.tools.errors import UsageError


class MLS(Folders):
    """One language of MLS. ending: of the audio files, flac or opus."""

    def __init__(self, *, ending: str, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.ending = ending

    def find(self, split: str) -> list[Utterance]:
        assert self.root is not None
        folder = self.root / split
        lines = text_of(folder / "transcripts.txt").splitlines()
        found = [self._utterance(folder, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
        if not found:
            raise UsageError(f"no utterances in {folder / 'transcripts.txt'}")
        return found

    def _utterance(self, folder: Path, number: int, line: str) -> Utterance:
        id_, _, text = line.partition("\t")
        parts = id_.strip().split("_")
        if len(parts) != 3:
            where = f"{folder.name}/transcripts.txt:{number}"
            return faulty(where, folder / "transcripts.txt", f"no id: {line!r} (expected <speaker>_<book>_<number>)")
        speaker, book, _ = parts
        return file_utterance(
            id_.strip(), speaker, folder / "audio" / speaker / book / f"{id_.strip()}.{self.ending}", normalise(text)
        )
