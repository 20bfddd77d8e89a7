"""Multilingual LibriSpeech (Pratap et al. 2020).

Each line of <root>/<split>/transcripts.txt is `<speaker>_<book>_<number> TAB <text>`. The audio files are
<root>/<split>/audio/<speaker>/<book>/<speaker>_<book>_<number>.flac or .opus.
"""

import re
from pathlib import Path

from typing_extensions import Unpack

from asr_ablations.components.data.librispeech import Folders
from asr_ablations.data.corpus import CorpusOptions, faulty, file_utterance, indexed, text_of
from asr_ablations.data.download import Archive, Download, check_source
from asr_ablations.data.utterances import Utterance
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.text import spelled_on_disk


class MLS(Folders):
    """One language of Multilingual LibriSpeech. ending: extension of the audio files, either flac or opus"""

    licence = "CC BY 4.0 (LICENSE of the corpus)"

    def __init__(self, *, ending: str, download: Download, **options: Unpack[CorpusOptions]) -> None:
        super().__init__(**options)
        if ending not in ("flac", "opus"):
            raise choices("data.ending", ending, ("flac", "opus"))
        check_source(download["address"], download["md5"], digits=32)
        if not re.fullmatch(r"[\w.-]+", str(download["archive"] or "")):
            raise choices("data.download.archive", download["archive"], "the name of an archive, such as mls_german")
        self.ending, self.download = ending, download
        self.archive = f"{download['archive']}_opus" if ending == "opus" else download["archive"]
        self.enter(self.archive)

    def archives(self, missing: list[str]) -> list[Archive]:
        md5 = self.download["md5"].get(self.archive)
        return [Archive(self.archive, self.archive, missing, md5)] if missing else []

    @indexed("ending")
    def find(self, split: str) -> list[Utterance]:
        assert self.root is not None
        folder = self.root / split
        lines = text_of(folder / "transcripts.txt").split("\n")
        utterances = [
            self._parse_line(folder, number, line) for number, line in enumerate(lines, start=1) if line.strip()
        ]
        if not utterances:
            raise UsageError(f"no utterances in {folder / 'transcripts.txt'}")
        return utterances

    def _parse_line(self, folder: Path, number: int, line: str) -> Utterance:
        id_, _, text = line.partition("\t")
        parts = id_.strip().split("_")
        if len(parts) != 3:
            where = f"{folder.name}/transcripts.txt:{number}"
            return faulty(where, folder / "transcripts.txt", f"no id: {line!r} (expected <speaker>_<book>_<number>)")
        speaker, book, _ = parts
        audio = spelled_on_disk(folder / "audio" / speaker / book / f"{id_.strip()}.{self.ending}")
        return file_utterance(id_.strip(), speaker, audio, text)
