"""Tail probabilities and quantiles of the distributions that tests use.

scipy.special gives exactly the same values as scipy.stats. Importing scipy.stats takes half a second, which is longer
than a small comparison, and its calls take twenty times as long.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from scipy import special

Values: TypeAlias = Any  # a number or an array; the result has the same shape


def t_above(value: Values, degrees: float) -> Values:
    """Return the probability that Student's t with these degrees of freedom exceeds a value."""
    return special.stdtr(degrees, -value)


def t_bound(probability: float, degrees: float) -> float:
    """Return the value that Student's t exceeds with this probability, which is between 0 and 1."""
    return float(-special.stdtrit(degrees, probability))


def normal_above(value: Values) -> Values:
    """Return the probability that a standard normal variable exceeds a value."""
    return special.ndtr(-value)


def normal_bound(probability: float) -> float:
    """Return the value that a standard normal variable exceeds with this probability."""
    return float(-special.ndtri(probability))


def chi_square_quantile(probability: Values, degrees: float) -> Values:
    """Return the quantile of a chi-square distribution with these degrees of freedom."""
    return 2 * special.gammaincinv(degrees / 2, probability)


def fisher(diverged: int, runs: int, diverged_baseline: int, runs_baseline: int) -> float:
    """Return the two-sided p-value of Fisher's exact test (1935) that both arms diverge equally often."""
    from scipy import stats  # takes half a second

    table = [[diverged, runs - diverged], [diverged_baseline, runs_baseline - diverged_baseline]]
    return float(stats.fisher_exact(table).pvalue)


def binomial_interval(failed: int, runs: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact confidence interval of the probability of failure (Clopper & Pearson 1934)."""
    tail = (1 - level) / 2
    low = 0.0 if not failed else float(special.betaincinv(failed, runs - failed + 1, tail))
    high = 1.0 if failed == runs else float(special.betaincinv(failed + 1, runs - failed, 1 - tail))
    return low, high


def fewest(enough: Callable[[int], bool], most: int) -> int | None:
    """Return the smallest number from 2 to `most` that is enough; None if `most` is not enough.

    The search requires that all numbers above one that is enough are enough, too.
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
