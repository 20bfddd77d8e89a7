"""How much the runs of an arm differ, and how values go together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from asr_ablations.statistics.bootstrap import shared_variance, units_of
from asr_ablations.statistics.range import Range
from asr_ablations.statistics.sample import Sample
from asr_ablations.statistics.tails import chi_square_quantile, normal_bound


@dataclass(frozen=True)
class Spread:
    """The rates of an arm's runs, as fractions.

    deviation: their standard deviation with its 95 % interval, which holds for normal rates; None for a single run.
    models: that of the models themselves, without the part that a finite test set adds; None where it is unknown.
    best is the lowest rate, worst the highest.
    """

    runs: int
    mean: float
    deviation: Range | None
    best: float
    worst: float
    models: float | None


def describe(sample: Sample) -> Spread:
    """Mean, standard deviation, best and worst of the runs of an arm."""
    rates = sample.rates
    return Spread(
        runs=len(rates),
        mean=float(rates.mean()),
        deviation=_deviation(rates.tolist()),
        best=float(rates.min()),
        worst=float(rates.max()),
        models=_deviation_of_models(sample),
    )


def _deviation(values: Sequence[float]) -> Range | None:
    degrees = len(values) - 1
    if degrees < 1:
        return None
    deviation = float(np.std(values, ddof=1))
    low, high = (deviation * math.sqrt(degrees / chi_square_quantile(chance, degrees)) for chance in (0.975, 0.025))
    return Range(deviation, low, high)


def _deviation_of_models(sample: Sample) -> float | None:
    """The standard deviation that the runs would show on a test set without end.

    What the test set adds is known from how much the seeds differ on single speakers: Σ var(errors) / words², of what
    a run's own rate does not explain (Jordan 2023, arXiv 2304.01910, who has it by example). 0 where it explains all.
    """
    if sample.errors is None or sample.totals is None or sample.units is None or len(sample.rates) < 2:
        return None
    units = len(np.unique(units_of(sample.units)))
    if units < 2:
        return None
    of_test_set = len(sample.rates) * shared_variance(sample.errors, sample.totals, sample.units)
    of_test_set *= units / (units - 1)  # the run's own rate, taken from the same units, explains one of them
    return math.sqrt(max(0.0, float(np.var(sample.rates, ddof=1)) - of_test_set))


@dataclass(frozen=True)
class Correlation:
    """A correlation with its 95 % interval, from −1 to 1, and the number of pairs."""

    value: float
    low: float
    high: float
    n: int


def spearman(x: Sequence[float], y: Sequence[float]) -> Correlation | None:
    """Spearman's rank correlation; None with fewer than four pairs or where one side is constant.

    The interval is Fisher's, with the variance 1.06 / (n − 3) of ranks (Fieller, Hartley & Pearson 1957).
    """
    return _correlation(_ranks(x), _ranks(y), 1.06)


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    means: list[float] = (np.cumsum(counts) - (counts - 1) / 2)[places].tolist()
    return means


def equal_seed_correlation(arm: Mapping[int, float], baseline: Mapping[int, float]) -> Correlation | None:
    """Pearson's correlation of two arms' rates over the seeds that both have; None as for `spearman`.

    Near 0 a seed means nothing across arms, and pairing by seed gains nothing. The interval is Fisher's (1921).
    """
    seeds = sorted(arm.keys() & baseline.keys())
    return _correlation([arm[seed] for seed in seeds], [baseline[seed] for seed in seeds], 1.0)


def _correlation(x: Sequence[float], y: Sequence[float], factor: float) -> Correlation | None:
    """factor: the variance of Fisher's z is factor / (n − 3)."""
    n = len(x)
    if n < 4 or min(np.ptp(x), np.ptp(y)) == 0:
        return None
    value = float(np.clip(np.corrcoef(x, y)[0, 1], -1, 1))
    if abs(value) > 1 - 1e-12:
        return Correlation(value, value, value, n)
    half = normal_bound(0.025) * math.sqrt(factor / (n - 3))
    return Correlation(value, math.tanh(math.atanh(value) - half), math.tanh(math.atanh(value) + half), n)
