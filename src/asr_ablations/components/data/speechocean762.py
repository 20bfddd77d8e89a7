"""speechocean762 (Zhang et al. 2021; OpenSLR 101): English read by 250 Mandarin speakers, children and adults.

The corpus consists of the Kaldi data directories train and test, and of audio files in the folder WAVE. It has no
development set. The transcripts are the prompts that the speakers read.
"""

from typing_extensions import Unpack

from asr_ablations.components.data.an4 import SPLITS, development_speakers
from asr_ablations.components.data.kaldi import read_directory
from asr_ablations.components.data.librispeech import Folders
from asr_ablations.data.corpus import CorpusOptions, indexed
from asr_ablations.data.download import Archive, Download, check_source
from asr_ablations.data.utterances import Utterance
from asr_ablations.tools.checks import whole

ARCHIVE, AUDIO = "speechocean762", "WAVE"


class SpeechOcean762(Folders):
    """speechocean762 with a development set of `held_out` training speakers, chosen by a hash of their names.

    If `held_out` is None, a third data directory, dev, must exist next to train and test.
    """

    licence = "Apache License 2.0 (LICENSE of the corpus)"

    def __init__(self, *, held_out: int | None, download: Download, **options: Unpack[CorpusOptions]) -> None:
        super().__init__(**options)
        self.check_splits(SPLITS)
        if held_out is not None:
            whole("data.held_out", held_out, 1)
        check_source(download["address"], download["md5"], digits=32)
        self.held_out, self.download = held_out, download
        self.enter(ARCHIVE)

    def folders(self) -> list[str]:
        return [name for name in SPLITS if name != "dev" or self.held_out is None]

    def archives(self, missing: list[str]) -> list[Archive]:
        splits = [name for name in ("train", "test") if name in missing]
        md5 = self.download["md5"].get(ARCHIVE)
        return [Archive(ARCHIVE, ARCHIVE, [*splits, AUDIO], md5)] if splits else []

    @indexed("held_out")
    def find(self, split: str) -> list[Utterance]:
        assert self.root is not None
        if self.held_out is None or split == "test":
            return read_directory(self.folder(split), self.root)[0]
        utterances, _ = read_directory(self.folder("train"), self.root)
        development = development_speakers(utterances, self.held_out)
        return [u for u in utterances if (u.speaker in development) == (split == "dev")]
