"""The difference of two arms on one test set, with the noise of seeds and of speakers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from asr_ablations.statistics.bootstrap import Interval, speaker_interval, units_of
from asr_ablations.statistics.seeds import detectable, pooled_variance, t_test, welch_error

Rates = NDArray[np.float64]


@dataclass(frozen=True)
class MeasuredDifference:
    """Arm less baseline, in fractions. speakers: its interval over speakers alone; None without utterances.

    p_seeds: Welch's test over seeds alone; p, half_width, standard_error, degrees: over seeds and speakers together;
    p_pooled: as p, with the noise of seeds pooled over all arms. All are None with fewer than two seeds an arm.
    """

    difference: float
    speakers: Interval | None
    p_seeds: float | None = None
    p: float | None = None
    half_width: float | None = None
    standard_error: float | None = None
    degrees: float | None = None
    p_pooled: float | None = None

    def detectable(self, alpha: float) -> float | None:
        """The smallest true difference that the test behind p would find at `alpha` in four cases of five."""
        if self.standard_error is None or self.degrees is None:
            return None
        return detectable(self.standard_error, self.degrees, alpha)


def rate_difference(
    arm: Rates,
    baseline: Rates,
    total: float,
    speakers: Interval | None = None,
    shared: float = 0.0,
    pooled: tuple[float, int] | None = None,
) -> MeasuredDifference:
    """From the rate of every seed of two arms; total: words or characters of the set; pooled: the variance within all
    arms and its degrees of freedom, by default that of these two.

    Seeds and speakers are two crossed sources of noise. A test on the utterances of one seed leaves out the first and
    calls two seeds of the same arm different; a test over seeds on one test set leaves out the second. The variances
    of the two are added and `shared`, the part that is in both, is taken off once (Cameron, Gelbach & Miller 2011);
    the result is never below either, and has the fewer degrees of freedom. So p is never below Welch's own.
    """
    difference = float(arm.mean() - baseline.mean())
    if min(len(arm), len(baseline)) < 2:
        return MeasuredDifference(difference, speakers)
    grain = 1 / max(1.0, total)
    welch = welch_error(arm.tolist(), baseline.tolist(), grain)
    variance, count = pooled or pooled_variance([arm.tolist(), baseline.tolist()], grain)
    error, degrees = _with_speakers(*welch, speakers, shared)
    return MeasuredDifference(
        difference,
        speakers,
        p_seeds=t_test(difference, *welch),
        p=t_test(difference, error, degrees),
        half_width=float(stats.t.ppf(0.975, degrees) * error),
        standard_error=error,
        degrees=degrees,
        p_pooled=t_test(
            difference,
            *_with_speakers(float(np.sqrt(variance * (1 / len(arm) + 1 / len(baseline)))), count, speakers, shared),
        ),
    )


def _with_speakers(error: float, degrees: float, speakers: Interval | None, shared: float) -> tuple[float, float]:
    """Standard error and degrees of freedom over seeds and speakers, from those over seeds."""
    if speakers is None:
        return error, degrees
    both = float(np.sqrt(max(0.0, error**2 + speakers.standard_error**2 - shared)))
    return max(both, error, speakers.standard_error), min(degrees, max(1, speakers.units - 1))


def error_difference(
    arm: Rates,
    baseline: Rates,
    totals: Rates,
    speakers: NDArray[np.str_],
    pooled: tuple[float, int] | None = None,
) -> MeasuredDifference:
    """From errors by (run, utterance) of two arms, and (utterances,) words or characters and speakers; pooled: as for
    rate_difference.
    """
    interval = speaker_interval(arm.mean(axis=0) - baseline.mean(axis=0), totals, speakers)
    total = max(1.0, float(totals.sum()))
    shared = sum(shared_variance(errors, totals, speakers) for errors in (arm, baseline))
    return rate_difference(arm.sum(axis=1) / total, baseline.sum(axis=1) / total, total, interval, shared, pooled)


def shared_variance(errors: Rates, totals: Rates, speakers: NDArray[np.str_]) -> float:
    """The part of the variance of an arm's mean rate that speakers and seeds both show: a seed does well on one
    speaker and badly on another. errors: (run, utterance).
    """
    if len(errors) < 2:
        return 0.0
    total = max(1.0, float(totals.sum()))
    residuals = errors - totals * errors.sum(axis=1, keepdims=True) / total  # what the run's own rate does not explain
    owner = units_of(speakers)
    by_unit = np.stack([np.bincount(owner, weights=row) for row in residuals])
    return float(by_unit.var(axis=0, ddof=1).sum() / len(errors) / total**2)
