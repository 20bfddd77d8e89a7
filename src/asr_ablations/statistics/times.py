"""How many times as long one arm takes as another."""

import math
from collections.abc import Sequence

import numpy as np

from asr_ablations.statistics.range import Range
from asr_ablations.statistics.seeds import welch_error
from asr_ablations.statistics.tails import t_bound


def ratio(arm: Sequence[float], baseline: Sequence[float], level: float = 0.05) -> Range | None:
    """The arm's geometric mean over the baseline's, with an interval of 1 − `level`; None below two values of each, and
    where no noise was measured.

    arm, baseline: what each run took, such as seconds of an epoch or seconds until an accuracy. A time is multiplied
    by what disturbs it, so the interval is Welch's on the scale of logarithms. A run that never gets there has no
    time: leaving it out would compare the fast ones only, so the caller has to give none at all for such an arm.

    Raises ValueError for a value that is not above 0.
    """
    if min(arm, default=1.0) <= 0 or min(baseline, default=1.0) <= 0:
        raise ValueError(f"times must be above 0, not {min([*arm, *baseline])}")
    if min(len(arm), len(baseline)) < 2:
        return None
    logs = [np.log(values).tolist() for values in (arm, baseline)]
    error, degrees = welch_error(*logs)
    if not error:
        return None
    middle = float(np.mean(logs[0]) - np.mean(logs[1]))
    half = t_bound(level / 2, degrees) * error
    return Range(math.exp(middle), math.exp(middle - half), math.exp(middle + half))
