"""CMU AN4: real speech, spelled words and numbers, in LibriSpeech's layout. It has no development set of its own."""

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from asr_ablations.components.data.librispeech import Folders
from asr_ablations.data.corpus import CorpusOptions
from asr_ablations.data.utterance import Utterance
from asr_ablations.tools.errors import choices

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AN4(Folders):
    """AN4 with a development set of `held_out` training speakers, chosen by a hash of their names.

    The splits are train (without these speakers), dev (these speakers) and test.
    """

    licence = "none is stated (README of the corpus, Carnegie Mellon University)"

    def __init__(self, *, held_out: int, **options: "Unpack[CorpusOptions]") -> None:
        super().__init__(**options)
        self.held_out = held_out
        # The corpus is distributed both as {train,test} and as a folder AN4 with these.
        if self.root is not None and not (self.root / "train").is_dir() and (self.root / "AN4" / "train").is_dir():
            self.root = self.root / "AN4"

    def folders(self) -> list[str]:
        return ["train", "test"]

    def find(self, split: str) -> list[Utterance]:
        utterances = super().find("train" if split == "dev" else split)
        if split == "test":
            return utterances
        development = self._development_speakers(utterances)
        return [u for u in utterances if (u.speaker in development) == (split == "dev")]

    def write(self, split: str, utterances: Iterable[Utterance]) -> None:
        """As Folders; dev is a part of train."""
        super().write("train" if split == "dev" else split, utterances)

    def _development_speakers(self, utterances: list[Utterance]) -> set[str]:
        speakers = {u.speaker for u in utterances if not u.fault}
        if not 1 <= self.held_out < len(speakers):
            raise choices("data.held_out", self.held_out, f"1 to {len(speakers) - 1}, of {len(speakers)} speakers")
        return set(sorted(speakers, key=lambda name: hashlib.sha256(name.encode()).digest())[: self.held_out])
