"""Intervals by bootstrap over speakers."""

import functools
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

    The interval is the estimate ± Student's t of n − 1 units times the bootstrap's standard error (Efron & Tibshirani
    1993, §12.4), which is that of n − 1 units too: drawing from n of them makes it √((n − 1) / n) too small (Hesterberg
    2015). Percentiles, which Bisani & Ney take, end where the worst of few units does: widened as Hesterberg
    proposes they hold 89 to 93 % at 5 speakers and 69 to 75 % at 3. This one holds 93 to 96 % at 5 to 40 speakers in
    every world of tests/metrics/test_bootstrap_coverage.py but one: where a few speakers carry the difference (gains
    that follow a log-normal with σ = 1) it holds 88 to 91 %, and a studentised bootstrap 90 to 92 %.
    """
    owner = units_of(speakers)
    units = int(owner.max(initial=-1)) + 1
    estimate = float(errors.sum() / max(1.0, totals.sum()))
    if units < 2:
        return Interval(estimate, -np.inf, np.inf, np.inf, units)
    drawn = _draws(units, replicates)
    rates: NDArray[np.float64] = _draw(drawn, owner, errors) / np.maximum(1.0, _draw(drawn, owner, totals))
    standard_error = float(np.sqrt(units / (units - 1)) * rates.std())
    reach = float(stats.t.ppf((1 + level) / 2, units - 1)) * standard_error
    return Interval(estimate, estimate - reach, estimate + reach, standard_error, units)


def units_of(speakers: NDArray[np.str_]) -> NDArray[np.intp]:
    """For each utterance the number of what is drawn with it: its speaker, or itself where there is one speaker."""
    names, owner = np.unique(speakers, return_inverse=True)
    return owner if len(names) > 1 else np.arange(len(speakers), dtype=np.intp)


@functools.lru_cache(maxsize=4)  # a comparison asks for the same ones for every pair of arms
def _draws(units: int, replicates: int) -> NDArray[np.float64]:
    """How often each unit is drawn: (replicates, units), the same at every call."""
    drawn = np.random.default_rng(0).multinomial(units, np.full(units, 1 / units), size=replicates)
    return drawn.astype(np.float64)


def _draw(drawn: NDArray[np.float64], owner: NDArray[np.intp], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of the values of the units drawn: (replicates, units) → (replicates,)."""
    return np.asarray(drawn @ np.bincount(owner, weights=values), dtype=np.float64)
