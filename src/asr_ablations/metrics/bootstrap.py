"""Intervals by bootstrap over speakers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

REPLICATES = 10_000


@dataclass(frozen=True)
class Interval:
    """An estimate, its interval, and the standard error that the units drawn alone explain."""

    estimate: float
    low: float
    high: float
    standard_error: float
    units: int


def speaker_interval(
    errors: NDArray[np.float64],
    totals: NDArray[np.float64],
    speakers: NDArray[np.str_],
    level: float = 0.95,
    replicates: int = REPLICATES,
) -> Interval:
    """Interval of Σ errors / Σ totals, arrays over utterances; for a difference of two systems give the difference of
    their errors (Bisani & Ney 2004, §2 and §3). Speakers are drawn with replacement, since the utterances of one
    are not independent. A set with one speaker falls back on utterances.

    Percentiles of few units are too narrow: they are taken further out, as Student's t would, and the standard error
    is that of n − 1 units (Hesterberg 2015, §4.2: expanded percentiles).
    """
    owner = units_of(speakers)
    units = int(owner.max(initial=-1)) + 1
    estimate = float(errors.sum() / max(1.0, totals.sum()))
    if units < 2:
        return Interval(estimate, -np.inf, np.inf, np.inf, units)
    drawn = np.random.default_rng(0).multinomial(units, np.full(units, 1 / units), size=replicates)
    rates: NDArray[np.float64] = _draw(drawn, owner, errors) / np.maximum(1.0, _draw(drawn, owner, totals))
    widened = np.sqrt(units / (units - 1))
    tail = stats.norm.cdf(-widened * stats.t.ppf((1 + level) / 2, units - 1))
    low, high = np.quantile(rates, [tail, 1 - tail])
    return Interval(estimate, float(low), float(high), float(widened * rates.std()), units)


def units_of(speakers: NDArray[np.str_]) -> NDArray[np.intp]:
    """For each utterance the number of what is drawn with it: its speaker, or itself where there is one speaker."""
    names, owner = np.unique(speakers, return_inverse=True)
    return owner if len(names) > 1 else np.arange(len(speakers), dtype=np.intp)


def _draw(drawn: NDArray[np.int64], owner: NDArray[np.intp], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of the values of the units drawn: (replicates, units) → (replicates,)."""
    return np.asarray(drawn @ np.bincount(owner, weights=values), dtype=np.float64)
