"""The standard deviation between seeds, pooled over arms."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# for each metric, the column with the references' length; one error in this length is the smallest step of a rate
TOTALS = {"wer": "words", "cer": "characters"}


@dataclass(frozen=True)
class SeedNoise:
    """The variation between seeds in earlier runs, with runs − arms degrees of freedom.

    - deviation: standard deviation of the error rate over seeds, pooled over arms, as a fraction
    - mean: mean error rate of the runs, as a fraction
    - runs, arms, sweeps: number of runs, arms and sweeps
    """

    deviation: float
    mean: float
    runs: int
    arms: int
    sweeps: int


def pooled_deviation(groups: Sequence[Sequence[float]], grain: float) -> float:
    """Pool the standard deviations s of groups of n values: √(Σ (n − 1) s² / Σ (n − 1)).

    The result is at least grain / √12, the standard deviation that comes from rounding to whole errors.
    """
    squares = sum(float(np.var(group, ddof=1)) * (len(group) - 1) for group in groups)
    return max(math.sqrt(squares / sum(len(group) - 1 for group in groups)), grain / math.sqrt(12))
