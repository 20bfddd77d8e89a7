"""An arm's error rates and error counts on a test set, and their mean and deviation over runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asr_verdicts.statistics.distributions import chi_square_quantile
from asr_verdicts.statistics.intervals import Range

Array = NDArray[np.float64]
SPEAKERS = "speakers"  # unit by which utterances were sampled, unless the corpus specifies another unit


@dataclass(frozen=True, eq=False)
class Sample:
    """An arm's results on a test set.

    - rates: error rate of each run, as a fraction, (runs,)
    - errors: number of errors in each run and utterance, (runs, utterances)
    - totals: number of words or characters in each utterance's reference, (utterances,)
    - speakers: speaker of each utterance, or another sampling unit, (utterances,)
    - grain: smallest step of a rate, which is one error in all words of the set; 0 if unknown
    - unit: plural name of the sampling units

    Errors, totals and speakers are None if only rates are known. If only speakers are unknown, each utterance counts as
    a speaker. A diverged run counts as a WER of 100 % (errors equal totals), because leaving it out would favour its
    arm. Raises ValueError if shapes do not match or rates are not finite.
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
        """Build a sample from errors, (runs, utterances), and from totals and speakers, both (utterances,)."""
        total = max(1.0, float(totals.sum()))
        return cls(errors.sum(axis=1) / total, errors, totals, speakers, 1 / total, unit)

    @classmethod
    def of_rates(cls, rates: Array, total: float | None = None) -> "Sample":
        """Build a sample from rates as fractions, (runs,). total: words or characters in the set; None if unknown."""
        return cls(rates, grain=0.0 if total is None else 1 / max(1.0, total))

    @property
    def units(self) -> NDArray[np.str_] | None:
        """The sampling unit of each utterance, (utterances,): its speaker, or the utterance if speakers are unknown."""
        if self.totals is None or self.speakers is not None:
            return self.speakers
        return np.arange(len(self.totals)).astype(np.str_)

    def of_runs(self, runs: NDArray[np.intp]) -> "Sample":
        """Return a sample with only the runs at the indices `runs`."""
        errors = None if self.errors is None else self.errors[runs]
        return Sample(self.rates[runs], errors, self.totals, self.speakers, self.grain, self.unit)

    def has_utterances_of(self, other: "Sample") -> bool:
        """Return whether both samples have equal totals and speakers, which indicates the same utterances."""
        mine, theirs = self.units, other.units
        if self.totals is None or other.totals is None or mine is None or theirs is None:
            return False
        return np.array_equal(self.totals, other.totals) and np.array_equal(mine, theirs)


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and the sample standard deviation, which is None if there are fewer than two values."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


@dataclass(frozen=True)
class Spread:
    """The spread of an arm's error rates over runs, as fractions.

    - deviation: standard deviation with its 95 % interval, which assumes normal rates; None if there is only one run
    - best, worst: lowest and highest rate
    """

    runs: int
    mean: float
    deviation: Range | None
    best: float
    worst: float


def describe(sample: Sample) -> Spread:
    """Return the mean, standard deviation, best and worst of an arm's error rates over runs."""
    rates = sample.rates
    return Spread(
        runs=len(rates),
        mean=float(rates.mean()),
        deviation=_estimate_deviation(rates.tolist()),
        best=float(rates.min()),
        worst=float(rates.max()),
    )


def _estimate_deviation(values: Sequence[float]) -> Range | None:
    degrees = len(values) - 1
    if degrees < 1:
        return None
    deviation = float(np.std(values, ddof=1))
    low, high = (deviation * math.sqrt(degrees / chi_square_quantile(chance, degrees)) for chance in (0.975, 0.025))
    return Range(deviation, low, high)
