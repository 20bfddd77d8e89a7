"""speechocean762 (Zhang et al. 2021; OpenSLR 101): read English of 250 Mandarin speakers, children and adults.

Kaldi data directories train and test, with the audio in WAVE, and no development set. Texts are what was to be read.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypedDict

from asr_ablations.components.data.an4 import SPLITS, development_speakers
from asr_ablations.components.data.kaldi import read_directory, write_directory
from asr_ablations.components.data.librispeech import Folders
from asr_ablations.data.corpus import CorpusOptions
from asr_ablations.data.download import check_source
from asr_ablations.data.utterances import Utterance
from asr_ablations.tools.checks import whole
from asr_verdicts.errors import choices

if TYPE_CHECKING:
    from typing_extensions import Unpack

ARCHIVE, AUDIO = "speechocean762", "WAVE"


class Download(TypedDict):
    """The source of the archive. address: of the folder; md5: of the archive by its name, empty where it is unknown."""

    address: str
    md5: Mapping[str, str]


class SpeechOcean762(Folders):
    """The corpus with a development set of `held_out` training speakers, chosen by a hash of their names; held_out None
    for a data directory dev that lies beside train and test.
    """

    licence = "Apache License 2.0 (LICENSE of the corpus)"

    def __init__(self, *, held_out: int | None, download: Download, **options: "Unpack[CorpusOptions]") -> None:
        super().__init__(**options)
        for role in self.requested:
            for name in getattr(self, role):
                if name not in SPLITS:
                    raise choices(f"data.{role}", name, SPLITS)
        if held_out is not None:
            whole("data.held_out", held_out, 1)
        check_source(download["address"], download["md5"], digits=32)
        self.held_out, self.download = held_out, download
        if self.root is not None and self.missing() and (self.root / ARCHIVE).is_dir():
            self.root = self.root / ARCHIVE

    def folders(self) -> list[str]:
        return [name for name in SPLITS if name != "dev" or self.held_out is None]

    def fetch(self) -> None:
        """Download, verify and unpack the archive, unless every split is present."""
        from asr_ablations.data.download import fetch_together

        if self.root is not None and (missing := [name for name in ("train", "test") if name in self.missing()]):
            address, md5 = self.download["address"], self.download["md5"].get(ARCHIVE)
            fetch_together([*missing, AUDIO], self.root, address=address, name=ARCHIVE, md5=md5)
        self.prepare()

    def find(self, split: str) -> list[Utterance]:
        assert self.root is not None
        if self.held_out is None or split == "test":
            return read_directory(self.folder(split), self.root)[0]
        utterances, _ = read_directory(self.folder("train"), self.root)
        development = development_speakers(utterances, self.held_out)
        return [u for u in utterances if (u.speaker in development) == (split == "dev")]

    def place(self, split: str) -> tuple[object, ...] | None:
        return (self.root, split, self.held_out)

    def write(self, split: str, utterances: Iterable[Utterance]) -> None:
        """Write a Kaldi directory; dev is a part of train where speakers are held out. The audio files stay where they
        are.
        """
        write_directory(self.folder("train" if split == "dev" and self.held_out is not None else split), utterances)
