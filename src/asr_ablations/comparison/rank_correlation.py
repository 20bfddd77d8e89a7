"""Spearman's rank correlation with its interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asr_verdicts.statistics.distributions import normal_bound


@dataclass(frozen=True)
class Correlation:
    """A correlation from −1 to 1 with its 95 % interval and the number of pairs."""

    value: float
    low: float
    high: float
    n: int


def spearman(x: Sequence[float], y: Sequence[float]) -> Correlation | None:
    """Return Spearman's rank correlation; None with fewer than four pairs, or if one side is constant.

    The interval is Fisher's, with the variance 1.06 / (n − 3) for ranks (Fieller, Hartley & Pearson 1957).
    """
    n = len(x)
    if n < 4 or min(np.ptp(x), np.ptp(y)) == 0:
        return None
    value = float(np.clip(np.corrcoef(_rank(x), _rank(y))[0, 1], -1, 1))
    if abs(value) > 1 - 1e-12:
        return Correlation(value, value, value, n)
    half = normal_bound(0.025) * math.sqrt(1.06 / (n - 3))
    return Correlation(value, math.tanh(math.atanh(value) - half), math.tanh(math.atanh(value) + half), n)


def _rank(values: Sequence[float]) -> np.ndarray:
    """Return ranks from 1; equal values share the mean of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places])
