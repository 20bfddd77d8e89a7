"""CMU AN4: recordings of spelled words and numbers, in LibriSpeech's layout.

The corpus has no development set and only five test speakers. `fold` allows cross-validation, which tests on each
speaker once.
"""

import hashlib
from collections.abc import Iterable

from typing_extensions import Unpack

from asr_ablations.components.data.librispeech import Folders
from asr_ablations.data.corpus import CorpusOptions, indexed
from asr_ablations.data.utterances import Utterance
from asr_ablations.tools.checks import is_whole, whole
from asr_verdicts.errors import choices

SPLITS = ("train", "dev", "test")


class AN4(Folders):
    """AN4 with a development set of `held_out` training speakers, chosen by a hash of their names.

    The splits are dev (the chosen speakers), train (all other training speakers) and test. If `fold` is set, the same
    hash divides all speakers into `folds` groups of similar size. Group number `fold`, counted from 0, then forms the
    test set, and the speakers of all other groups are training speakers.
    """

    licence = "none is stated (README of the corpus, Carnegie Mellon University)"

    def __init__(
        self, *, held_out: int, fold: int | None = None, folds: int = 10, **options: Unpack[CorpusOptions]
    ) -> None:
        super().__init__(**options)
        self.check_splits(SPLITS)
        whole("data.folds", folds, 2)
        whole("data.held_out", held_out, 1)
        if fold is not None and not (is_whole(fold, 0) and fold < folds):
            raise choices("data.fold", fold, f"null or 0 to {folds - 1}, one of data.folds={folds}")
        self.held_out, self.fold, self.folds = held_out, fold, folds
        self.enter("AN4")

    def folders(self) -> list[str]:
        return ["train", "test"]

    @indexed("held_out", "fold", "folds")
    def find(self, split: str) -> list[Utterance]:
        find = super().find if self.fold is None else self._find_fold
        utterances = find("test" if split == "test" else "train")
        if split == "test":
            return utterances
        development = development_speakers(utterances, self.held_out)
        return [u for u in utterances if (u.speaker in development) == (split == "dev")]

    def _find_fold(self, split: str) -> list[Utterance]:
        """Return the utterances of the fold's speakers if `split` is test, or of all other speakers if it is train."""
        utterances = [*super().find("train"), *super().find("test")]
        speakers = _shuffle({u.speaker for u in utterances if not u.fault})
        if self.folds > len(speakers):
            raise choices("data.folds", self.folds, f"2 to {len(speakers)}, of {len(speakers)} speakers")
        fold = {speaker for number, speaker in enumerate(speakers) if number % self.folds == self.fold}
        return [u for u in utterances if (u.speaker in fold) == (split == "test")]


def development_speakers(utterances: Iterable[Utterance], held_out: int) -> set[str]:
    """Choose `held_out` training speakers for the development set by a hash of their names.

    Increasing `held_out` only adds speakers. Raises UsageError if no training speakers remain.
    """
    speakers = {u.speaker for u in utterances if not u.fault}
    if not 1 <= held_out < len(speakers):
        raise choices("data.held_out", held_out, f"1 to {len(speakers) - 1}, of {len(speakers)} speakers")
    return set(_shuffle(speakers)[:held_out])


def _shuffle(speakers: set[str]) -> list[str]:
    """Return the speakers in order of the hashes of their names, which is arbitrary but fixed."""
    return sorted(speakers, key=lambda name: hashlib.sha256(name.encode()).digest())
