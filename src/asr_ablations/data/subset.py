"""Select a random part of the training set that has a given number of hours, speaker by speaker."""

import hashlib
import math
from collections.abc import Mapping

import numpy as np

from asr_ablations.data.utterances import Utterances
from asr_ablations.tools.checks import number, whole
from asr_verdicts.errors import choices

DECIMALS = 1000
"""An error message rounds the available hours down to a multiple of 1 / DECIMALS."""


class Subset:
    """Selects a random part of the training set: whole speakers, in an order that depends only on `seed`.

    The last speaker contributes only enough utterances, also in random order, to reach `hours`. A subset therefore
    contains every smaller subset with the same seed. Utterances that no model can use do not count. Utterances that
    only some alphabets or models cannot use do count, because the subset must not depend on the alphabet or model.
    """

    def __init__(self, options: object) -> None:
        if not isinstance(options, Mapping) or set(options) != {"hours", "seed"}:
            raise choices("data.subset", options, "null, or both keys, as in {hours: 1, seed: 0}")
        self.hours = number("data.subset.hours", options["hours"], above=0)
        self.seed = whole("data.subset.seed", options["seed"], 0)

    def draw(self, training: Utterances, max_seconds: float | None) -> Utterances:
        """Return the subset in its original order, plus all faulty utterances, which are reported and left out later.

        max_seconds: maximum duration of an utterance. Raises UsageError if the training set has too few hours.
        """
        durations, faulty = training.column("duration"), training.has("fault")
        rows = np.flatnonzero(~faulty & training.has("text") & (durations <= (max_seconds or math.inf)))
        usable = training.take(rows)
        names = zip(*map(usable.strings, ("speaker", "unit", "id")), strict=True)
        places = [(self._place(speaker or unit or id_), self._place(id_)) for speaker, unit, id_ in names]
        order = rows[sorted(range(len(rows)), key=places.__getitem__)]
        ends = np.cumsum(durations[order]) / 3600
        count = int(np.searchsorted(ends, self.hours)) + 1
        if count > len(ends):
            most = math.floor(DECIMALS * ends[-1]) / DECIMALS if len(ends) else 0
            raise choices("data.subset.hours", self.hours, f"at most {most:g}, the hours of usable training speech")
        return training.take(np.sort(np.concatenate([order[:count], np.flatnonzero(faulty)])))

    def _place(self, name: str) -> bytes:
        """Return a sort key for a speaker or utterance, which gives a random order that depends only on the seed."""
        return hashlib.sha256(f"{self.seed} {name}".encode(errors="surrogatepass")).digest()
