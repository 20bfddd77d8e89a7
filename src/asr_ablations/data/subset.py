"""A part of the training set of given length, drawn by speaker."""

import hashlib
import math
from collections.abc import Mapping

import numpy as np

from asr_ablations.data.utterances import Utterances
from asr_ablations.tools.checks import number, whole
from asr_verdicts.errors import choices

DECIMALS = 1000
"""Steps per hour to which the message about too few hours rounds down."""


class Subset:
    """Draws a part of the training set: whole speakers in an order that `seed` draws.

    Utterances of the last speaker are added, in an order that `seed` also draws, until `hours` hours are reached. So
    fewer hours are always contained in more hours of the same seed. Utterances that cannot be used by any model are not
    drawn. What only one alphabet or model cannot use is drawn, so that the subset does not depend on them.
    """

    def __init__(self, options: object) -> None:
        if not isinstance(options, Mapping) or set(options) != {"hours", "seed"}:
            raise choices("data.subset", options, "null, or both keys, as in {hours: 1, seed: 0}")
        self.hours = number("data.subset.hours", options["hours"], above=0)
        self.seed = whole("data.subset.seed", options["seed"], 0)

    def draw(self, training: Utterances, max_seconds: float | None) -> Utterances:
        """Return the subset in the order of the set, with all faulty utterances, which are reported and left out later.

        Raises UsageError if there are too few hours.
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
        """Return the place of a speaker or an utterance in the order that the seed draws."""
        return hashlib.sha256(f"{self.seed} {name}".encode(errors="surrogatepass")).digest()
