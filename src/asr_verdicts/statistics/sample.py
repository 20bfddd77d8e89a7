"""Measurements of arms: samples, means and deviations over seeds, and their spread."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asr_verdicts.statistics.distributions import chi_square_quantile, normal_bound
from asr_verdicts.statistics.intervals import Range

Array = NDArray[np.float64]
SPEAKERS = "speakers"
"""What utterances were drawn with, unless a corpus knows better."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One arm on one test set.

    rates: the error rate of each run, a fraction (runs,). errors: the errors of each run and utterance (runs,
    utterances); totals: words or characters (utterances,); speakers: who speaks (utterances,), or another unit that
    utterances were drawn with; unit: what these are, as a plural. All three arrays are None where only the rates are
    known; without speakers every utterance counts as a speaker of its own. grain: the step in which
    a rate can change, one error in the words of the set; 0 where their number is unknown.

    A run that diverged takes part: its errors equal the totals, a WER of 100 %. Leaving it out would compare the
    survivors.

    Raises ValueError for shapes that do not fit and for rates that are not finite.
    """

    rates: Array
    errors: Array | None = None
    totals: Array | None = None
    speakers: NDArray[np.str_] | None = None
    grain: float = 0.0
    unit: str = SPEAKERS

    def __post_init__(self) -> None:
        if self.rates.ndim != 1 or not np.isfinite(self.rates).all():
            raise ValueError(f"rates must be finite numbers of shape (runs,), not {self.rates.tolist()}")
        if self.errors is None:
            return
        if self.totals is None or self.errors.shape != (len(self.rates), len(self.totals)):
            expected = (len(self.rates), "utterances" if self.totals is None else len(self.totals))
            raise ValueError(f"errors have the shape {self.errors.shape}, expected (runs, utterances) = {expected}")
        if self.speakers is not None and len(self.speakers) != len(self.totals):
            raise ValueError(f"{len(self.speakers)} speakers for {len(self.totals)} utterances")

    @classmethod
    def of_errors(
        cls, errors: Array, totals: Array, speakers: NDArray[np.str_] | None = None, unit: str = SPEAKERS
    ) -> "Sample":
        """errors: (runs, utterances); totals: words or characters (utterances,); speakers: (utterances,)."""
        total = max(1.0, float(totals.sum()))
        return cls(errors.sum(axis=1) / total, errors, totals, speakers, 1 / total, unit)

    @classmethod
    def of_rates(cls, rates: Array, total: float | None = None) -> "Sample":
        """rates: fractions (runs,); total: words or characters of the set, where known."""
        return cls(rates, grain=0.0 if total is None else 1 / max(1.0, total))

    @property
    def units(self) -> NDArray[np.str_] | None:
        """The name of what each utterance is drawn with (utterances,): its speaker, or itself where none is known."""
        if self.totals is None or self.speakers is not None:
            return self.speakers
        return np.arange(len(self.totals)).astype(np.str_)

    def of_runs(self, runs: NDArray[np.intp]) -> "Sample":
        """The sample of some of the runs, given by their numbers."""
        errors = None if self.errors is None else self.errors[runs]
        return Sample(self.rates[runs], errors, self.totals, self.speakers, self.grain, self.unit)

    def has_utterances_of(self, other: "Sample") -> bool:
        """True if both were tested on the same utterances, as far as their words and speakers tell."""
        mine, theirs = self.units, other.units
        if self.totals is None or other.totals is None or mine is None or theirs is None:
            return False
        return np.array_equal(self.totals, other.totals) and np.array_equal(mine, theirs)


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation, which is None for fewer than two values."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


@dataclass(frozen=True)
class Spread:
    """The rates of an arm's runs, as fractions.

    deviation: their standard deviation with its 95 % interval, which holds for normal rates; None for a single run.
    best is the lowest rate, worst the highest.
    """

    runs: int
    mean: float
    deviation: Range | None
    best: float
    worst: float


def describe(sample: Sample) -> Spread:
    """Mean, standard deviation, best and worst of the runs of an arm."""
    rates = sample.rates
    return Spread(
        runs=len(rates),
        mean=float(rates.mean()),
        deviation=_deviation(rates.tolist()),
        best=float(rates.min()),
        worst=float(rates.max()),
    )


def _deviation(values: Sequence[float]) -> Range | None:
    degrees = len(values) - 1
    if degrees < 1:
        return None
    deviation = float(np.std(values, ddof=1))
    low, high = (deviation * math.sqrt(degrees / chi_square_quantile(chance, degrees)) for chance in (0.975, 0.025))
    return Range(deviation, low, high)


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
