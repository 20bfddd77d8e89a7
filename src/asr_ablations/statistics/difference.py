"""The difference of two arms on one test set, with the noise of seeds and of speakers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from asr_ablations.statistics.bootstrap import shared_variance, speaker_interval
from asr_ablations.statistics.interval import Interval
from asr_ablations.statistics.seeds import detectable, pooled_variance, t_test, welch_error

Rates = NDArray[np.float64]
PooledVariance = tuple[float, int]
"""Variance of seeds within all arms of a comparison, and its degrees of freedom."""


@dataclass(frozen=True)
class MeasuredDifference:
    """The arm's rate less the baseline's, as a fraction, with its noise.

    speakers: 95 % interval over speakers alone; None without utterances. interval: 95 % interval over seeds and
    speakers together, and p its test; p_seeds: Welch's test over seeds alone; p_pooled: as p, with the noise of seeds
    pooled over all arms. All four are None with fewer than two seeds per arm.
    """

    difference: float
    speakers: Interval | None
    interval: Interval | None = None
    p: float | None = None
    p_seeds: float | None = None
    p_pooled: float | None = None

    def detectable(self, alpha: float) -> float | None:
        """The smallest true difference that the test behind p would find at `alpha` in four cases of five."""
        return None if self.interval is None else detectable(self.interval.standard_error, self.interval.degrees, alpha)


def rate_difference(
    arm: Rates,
    baseline: Rates,
    total: float,
    speakers: Interval | None = None,
    shared: float = 0.0,
    pooled: PooledVariance | None = None,
) -> MeasuredDifference:
    """The difference of two arms from the rate of every seed (seeds,).

    total: words or characters of the set; pooled: by default the variance within these two arms.

    Seeds and speakers are two crossed sources of noise. A test on the utterances of a single seed leaves out the first
    and calls two seeds of the same arm different; a test over seeds on one test set leaves out the second. The
    variances of the two are added and `shared`, the part that is in both, is subtracted once (Cameron, Gelbach & Miller
    2011); the result is never below either, and has the fewer degrees of freedom. So p is never below Welch's own.
    """
    difference = float(arm.mean() - baseline.mean())
    if min(len(arm), len(baseline)) < 2:
        return MeasuredDifference(difference, speakers)
    grain = 1 / max(1.0, total)
    welch = welch_error(arm.tolist(), baseline.tolist(), grain)
    variance, count = pooled or pooled_variance([arm.tolist(), baseline.tolist()], grain)
    pooled_error = float(np.sqrt(variance * (1 / len(arm) + 1 / len(baseline))))
    error, degrees = _with_speakers(*welch, speakers, shared)
    return MeasuredDifference(
        difference,
        speakers,
        interval=Interval(difference, float(stats.t.ppf(0.975, degrees) * error), error, degrees),
        p=t_test(difference, error, degrees),
        p_seeds=t_test(difference, *welch),
        p_pooled=t_test(difference, *_with_speakers(pooled_error, count, speakers, shared)),
    )


def _with_speakers(error: float, degrees: float, speakers: Interval | None, shared: float) -> tuple[float, float]:
    """Standard error and degrees of freedom over seeds and speakers, from those over seeds."""
    if speakers is None:
        return error, degrees
    both = float(np.sqrt(max(0.0, error**2 + speakers.standard_error**2 - shared)))
    return max(both, error, speakers.standard_error), min(degrees, max(1, speakers.degrees))


def error_difference(
    arm: Rates,
    baseline: Rates,
    totals: Rates,
    speakers: NDArray[np.str_],
    pooled: PooledVariance | None = None,
) -> MeasuredDifference:
    """The difference of two arms from their errors per run and utterance.

    arm, baseline: errors (runs, utterances); totals: words or characters (utterances,); speakers: (utterances,);
    pooled: as for rate_difference.
    """
    interval = speaker_interval(arm.mean(axis=0) - baseline.mean(axis=0), totals, speakers)
    total = max(1.0, float(totals.sum()))
    shared = sum(shared_variance(errors, totals, speakers) for errors in (arm, baseline))
    return rate_difference(arm.sum(axis=1) / total, baseline.sum(axis=1) / total, total, interval, shared, pooled)
