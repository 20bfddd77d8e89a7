"""The noise of seeds, pooled over arms."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# units in which a metric counts errors; a single error is the smallest step of a rate
TOTALS = {"wer": "words", "cer": "characters"}


@dataclass(frozen=True)
class SeedNoise:
    """The noise of seeds in earlier runs, with runs − arms degrees of freedom.

    - deviation: the standard deviation over seeds, pooled over arms, of a rate as a fraction; mean: of the rates
    - runs, arms, sweeps: their numbers
    """

    deviation: float
    mean: float
    runs: int
    arms: int
    sweeps: int


def pooled_deviation(groups: Sequence[Sequence[float]], grain: float) -> float:
    """Pool the standard deviations of groups: √(Σ (n − 1) s² / Σ (n − 1)).

    The result is at least the rounding to whole errors, grain / √12.
    """
    squares = sum(float(np.var(group, ddof=1)) * (len(group) - 1) for group in groups)
    return max(math.sqrt(squares / sum(len(group) - 1 for group in groups)), grain / math.sqrt(12))
