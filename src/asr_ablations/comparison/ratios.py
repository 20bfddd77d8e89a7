"""How many times as long one thing takes as another."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from asr_ablations.statistics.times import ratio


class Ratio(NamedTuple):
    """A ratio of geometric means with its 95 % interval over runs; None where a side has a single run."""

    value: float
    low: float | None
    high: float | None


def ratio_of_times(arm: Sequence[float], baseline: Sequence[float], *, itself: bool = False) -> Ratio | None:
    """What the runs of an arm took over what those of the baseline did, in any unit; None where a side has no time, or
    one of 0. itself: both are the same runs, whose ratio is 1 without any doubt.
    """
    if min(arm, default=0) <= 0 or min(baseline, default=0) <= 0:
        return None
    known = None if itself else ratio(arm, baseline)
    if known is None:
        return Ratio(float(np.exp(np.mean(np.log(arm)) - np.mean(np.log(baseline)))), None, None)
    return Ratio(known.value, known.low, known.high)
