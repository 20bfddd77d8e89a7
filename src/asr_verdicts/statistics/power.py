"""The differences that a comparison of this size detects, and the seeds or speakers that would detect a given one."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import optimize

from asr_verdicts.statistics.distributions import chi_square_quantile, fewest, normal_above, t_bound
from asr_verdicts.statistics.estimate import Estimate, Part, RunNoise, combined
from asr_verdicts.statistics.intervals import Range
from asr_verdicts.statistics.procedures import FixedLength, Procedure
from asr_verdicts.statistics.sample import Array

POWER = 0.8  # probability of detecting a difference
MOST = 100_000  # largest number of seeds or speakers that is proposed


def detectable_range(estimate: Estimate, level: float, procedure: Procedure | None = None) -> Range:
    """The true difference, a fraction, that an experiment of this size would detect with a power of 80 %.

    level: two-sided; procedure: the test, by default Student's t. The range is a 90 % interval, because the standard
    error is itself an estimate: its square follows a chi-square with ν degrees of freedom. With two seeds per arm its
    ends are a factor of six or more apart. All three are inf if no difference can be detected.
    """
    value = detectable_difference(estimate, level, POWER, procedure)
    ratio = estimate.degrees / chi_square_quantile(np.array([0.95, 0.05]), estimate.degrees)
    low, high = (float(value * math.sqrt(factor)) for factor in ratio)
    return Range(value, low, high)


def detectable_difference(
    estimate: Estimate, level: float, power: float = POWER, procedure: Procedure | None = None
) -> float:
    """The true difference, a fraction, that is detected with probability `power` (noncentral t); inf if none is."""
    half_width = (procedure or FixedLength()).half_width(estimate, level)
    if math.isinf(half_width):
        return math.inf
    # integrates over quantiles of the error's chi-square, because scipy.stats.nct is nan far out in its tail
    quantiles = (np.arange(2000) + 0.5) / 2000
    critical = half_width / estimate.standard_error
    bounds = critical * np.sqrt(chi_square_quantile(quantiles, estimate.degrees) / estimate.degrees)

    def excess(effect: float) -> float:
        return float(np.mean(normal_above(bounds - effect) + normal_above(bounds + effect))) - power

    return float(estimate.standard_error * optimize.brentq(excess, 0.0, 2 * critical + 10))


@dataclass(frozen=True)
class Repetition:
    """The chances that a repetition shows a difference above 0, one below 0, or equality within the margin."""

    above: float
    below: float
    equal: float


def repetition(
    estimate: Estimate, level: float, margin: float | None, equal_level: float, procedure: Procedure | None = None
) -> Repetition | None:
    """Predict what as many fresh runs on the same test speakers show; None if the noise of seeds is unknown.

    level, equal_level: two-sided, of the test and of the interval that must lie within ± margin. All true differences
    count as equally likely, so the measured one is as likely too large as too small (Goodman 1992). If most true
    differences are small, a shown difference comes again less often.
    """
    procedure, seeds = procedure or FixedLength(), estimate.over_seeds
    if seeds is None or not seeds.variance or not estimate.standard_error:
        return None
    # of the true variance over seeds, given the measured one, and of the repetition's variance
    quantiles = chi_square_quantile((np.arange(60) + 0.5) / 60, seeds.degrees) / seeds.degrees
    true = seeds.variance / quantiles[:, None]
    of_speakers = max(0.0, estimate.standard_error**2 - seeds.variance)
    errors = np.sqrt(of_speakers + true * quantiles) / estimate.standard_error
    deviations = np.sqrt(2 * true)  # the measured difference and the repetition's deviate from the true one

    def beyond(bounds: Array, sign: int) -> float:
        """The chance that the repetition's difference lies beyond its bound on one side of 0."""
        return float(np.mean(normal_above((bounds - sign * estimate.value) / deviations)))

    bounds, room = procedure.half_width(estimate, level) * errors, np.zeros_like(errors)
    if margin is not None:
        room = np.clip(np.minimum(bounds, margin - procedure.half_width(estimate, equal_level) * errors), 0.0, None)
    return Repetition(beyond(bounds, 1), beyond(bounds, -1), 1 - beyond(room, 1) - beyond(room, -1))


def shown_equal(estimate: Estimate, level: float, power: float = POWER) -> float:
    """The margin, a fraction, within which such runs show equal arms to be equivalent with probability `power`.

    level: two-sided, twice the level of each of the two one-sided tests (Schuirmann 1987).
    """
    quantiles = t_bound(level / 2, estimate.degrees) + t_bound((1 - power) / 2, estimate.degrees)
    return float(quantiles * estimate.standard_error)


# the difference, a fraction, that an estimate of this precision detects, or within which it shows equality
Reach = Callable[[Estimate], float]


def _find_seeds(size: float, estimate: Estimate, reach: Reach) -> int | None:
    return fewest(lambda seeds: reach(with_seeds(estimate, seeds)) <= size, MOST)


def _find_speakers(size: float, estimate: Estimate, reach: Reach) -> int | None:
    if estimate.over_speakers is None or not math.isfinite(estimate.over_speakers.standard_error):
        return None
    return fewest(lambda speakers: reach(_with_speakers(estimate, speakers)) <= size, MOST)


@dataclass(frozen=True)
class Levers:
    """The seeds per arm, or the test speakers, that alone would detect a difference or show equality.

    cheaper: the lever that grows by the smaller factor, "neither" if no single lever is enough, "none" if the present
    size is. On a tie it is speakers: one more speaker costs only decoding, one more seed costs training every arm.
    """

    seeds: int | None
    speakers: int | None
    cheaper: Literal["seeds", "speakers", "neither", "none"]


def levers(difference: float, estimate: Estimate, level: float, power: float = POWER) -> Levers:
    """Both levers for detecting a true difference, a fraction."""
    return _find_levers(difference, estimate, lambda resized: detectable_difference(resized, level, power))


def levers_to_equal(margin: float, estimate: Estimate, level: float, power: float = POWER) -> Levers:
    """Both levers for showing equal arms to be equivalent within ± margin; level as in `shown_equal`."""
    return _find_levers(margin, estimate, lambda resized: shown_equal(resized, level, power))


def _find_levers(size: float, estimate: Estimate, reach: Reach) -> Levers:
    seeds, speakers = _find_seeds(size, estimate, reach), _find_speakers(size, estimate, reach)
    if reach(estimate) <= size:
        return Levers(seeds, speakers, "none")
    more_seeds = math.inf if seeds is None else seeds / estimate.models
    more_speakers = math.inf if speakers is None else speakers / estimate.speakers
    if math.isinf(more_seeds) and math.isinf(more_speakers):
        return Levers(seeds, speakers, "neither")
    return Levers(seeds, speakers, "seeds" if more_seeds < more_speakers else "speakers")


def with_seeds(estimate: Estimate, seeds: int) -> Estimate:
    """The estimate with this number of runs of every arm."""
    if not estimate.arms:
        return estimate  # a single model
    lost = 2 * (seeds // 5) if estimate.trimmed else 0
    arms = tuple(replace(arm, runs=seeds, degrees=seeds - lost - 1) for arm in estimate.arms)
    speakers = estimate.over_speakers
    if speakers is not None:
        present = sum(arm.shared / arm.runs for arm in estimate.arms)
        shared = sum(arm.shared / seeds for arm in arms)
        speakers = Part(math.sqrt(max(0.0, speakers.variance - present) + shared), speakers.degrees)
    return _resize(estimate, arms, speakers)


def _with_speakers(estimate: Estimate, speakers: int) -> Estimate:
    """The estimate with this number of test speakers; the part shared with seeds falls with them."""
    assert estimate.over_speakers is not None
    factor = estimate.speakers / speakers
    arms = tuple(
        replace(arm, variance=max(0.0, arm.variance - arm.shared) + factor * arm.shared, shared=factor * arm.shared)
        for arm in estimate.arms
    )
    now = estimate.over_speakers
    part = Part(now.standard_error * math.sqrt(factor), max(1.0, (now.degrees + 1) / factor - 1))
    return _resize(estimate, arms, part)


def _resize(estimate: Estimate, arms: tuple[RunNoise, ...], speakers: Part | None) -> Estimate:
    noise = combined(arms, speakers) if arms else speakers
    assert noise is not None
    return replace(estimate, standard_error=noise.standard_error, degrees=noise.degrees)
