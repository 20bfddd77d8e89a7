"""Mean and deviation over seeds, Welch's standard error, Holm's correction."""

from collections.abc import Sequence

import numpy as np


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation, which is None for fewer than two values."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def welch_error(arm: Sequence[float], baseline: Sequence[float], grain: float = 0.0) -> tuple[float, float]:
    """Standard error of the difference of two means, and Welch's degrees of freedom.

    grain: the step in which values can change, which is a single error of the test set. Two seeds with equal counts do
    not prove that seeds change nothing: a variance is never taken as less than that of rounding to the grain,
    grain² / 12.
    """
    variances = [max(float(np.var(values, ddof=1)), grain**2 / 12) / len(values) for values in (arm, baseline)]
    total = sum(variances)
    if not total:
        return 0.0, float(len(arm) + len(baseline) - 2)
    parts = zip(variances, (arm, baseline), strict=True)
    return float(np.sqrt(total)), total**2 / sum(v**2 / (len(values) - 1) for v, values in parts)


def holm(ps: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm 1979), in the order given: all can be compared with the same level."""
    order = np.argsort(ps)
    steps = [min(1.0, (len(ps) - rank) * ps[index]) for rank, index in enumerate(order)]
    adjusted = np.empty(len(ps))
    adjusted[order] = np.maximum.accumulate(steps) if steps else steps
    return [float(p) for p in adjusted]
