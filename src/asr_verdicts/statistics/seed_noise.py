"""The noise of seeds, pooled over arms."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

TOTALS = {"wer": "words", "cer": "characters"}
"""The units in which a metric counts errors; a single error is the step in which a rate can change."""


@dataclass(frozen=True)
class SeedNoise:
    """deviation: the standard deviation over seeds, pooled over arms, of a rate as a fraction; mean: of those rates.
    runs, arms, sweeps: how many it comes from; it has runs − arms degrees of freedom.
    """

    deviation: float
    mean: float
    runs: int
    arms: int
    sweeps: int


def pooled_deviation(groups: Sequence[Sequence[float]], grain: float) -> float:
    """√(Σ (n − 1) s² / Σ (n − 1)), and never less than the rounding to single errors, grain / √12."""
    squares = sum(float(np.var(group, ddof=1)) * (len(group) - 1) for group in groups)
    return max(math.sqrt(squares / sum(len(group) - 1 for group in groups)), grain / math.sqrt(12))
