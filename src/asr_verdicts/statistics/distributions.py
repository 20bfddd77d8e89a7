"""Tail probabilities and quantiles of the distributions that tests use.

They are computed by scipy.special, which gives exactly the same values as scipy.stats. Importing scipy.stats takes half
a second, which is longer than a small comparison, and its functions take twenty times as long.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from scipy import special

Values: TypeAlias = Any  # a number or an array; the result has the same shape


def t_above(value: Values, degrees: float) -> Values:
    """Return the probability that Student's t with `degrees` degrees of freedom exceeds `value`."""
    return special.stdtr(degrees, -value)


def t_bound(probability: float, degrees: float) -> float:
    """Return the value that Student's t with `degrees` degrees of freedom exceeds with this probability."""
    return float(-special.stdtrit(degrees, probability))


def normal_above(value: Values) -> Values:
    """Return the probability that a standard normal variable exceeds `value`."""
    return special.ndtr(-value)


def normal_bound(probability: float) -> float:
    """Return the value that a standard normal variable exceeds with this probability."""
    return float(-special.ndtri(probability))


def chi_square_quantile(probability: Values, degrees: float) -> Values:
    """Return a quantile of the chi-square distribution with `degrees` degrees of freedom."""
    return 2 * special.gammaincinv(degrees / 2, probability)


def fisher(diverged: int, runs: int, diverged_baseline: int, runs_baseline: int) -> float:
    """Return the two-sided p-value of Fisher's exact test (1935) that both arms are equally likely to diverge."""
    from scipy import stats  # imported on demand, because it takes half a second

    table = [[diverged, runs - diverged], [diverged_baseline, runs_baseline - diverged_baseline]]
    return float(stats.fisher_exact(table).pvalue)


def binomial_interval(failed: int, runs: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact confidence interval of a failure probability (Clopper & Pearson 1934)."""
    tail = (1 - level) / 2
    low = 0.0 if not failed else float(special.betaincinv(failed, runs - failed + 1, tail))
    high = 1.0 if failed == runs else float(special.betaincinv(failed + 1, runs - failed, 1 - tail))
    return low, high


def fewest(enough: Callable[[int], bool], most: int) -> int | None:
    """Return the smallest number from 2 to `most` for which `enough` is true; None if `enough(most)` is false.

    The search assumes that `enough` stays true for all larger numbers.
    """
    if not enough(most):
        return None
    low, high = 1, 2
    while not enough(high):
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
