"""Compute which difference a comparison detects, and how many seeds or speakers would detect a given difference."""

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

POWER = 0.8  # probability with which a detectable difference is shown
MOST = 100_000  # largest number of seeds or speakers that is considered


def detectable_range(estimate: Estimate, level: float, procedure: Procedure | None = None) -> Range:
    """Return the true difference that an experiment of this size detects with a power of 80 %, as a fraction.

    - level: two-sided level of the test
    - procedure: the test, by default Student's t

    The ends of the range form a 90 % interval, because the standard error is itself an estimate, whose square follows a
    chi-square distribution. With two seeds per arm, the ends differ by a factor of six or more. Value and ends are inf
    if no difference can be detected.
    """
    value = detectable_difference(estimate, level, procedure)
    ratio = estimate.degrees / chi_square_quantile(np.array([0.95, 0.05]), estimate.degrees)
    low, high = (float(value * math.sqrt(factor)) for factor in ratio)
    return Range(value, low, high)


def detectable_difference(estimate: Estimate, level: float, procedure: Procedure | None = None) -> float:
    """Return the true difference, as a fraction, that is detected with probability POWER; inf if there is none."""
    half_width = (procedure or FixedLength()).half_width(estimate, level)
    if math.isinf(half_width):
        return math.inf
    # Average the power of a normal statistic over quantiles of the variance's chi-square distribution.
    # The noncentral t distribution (scipy.stats.nct) gives the same power, but returns nan far out in the tail.
    quantiles = (np.arange(2000) + 0.5) / 2000
    critical = half_width / estimate.standard_error
    bounds = critical * np.sqrt(chi_square_quantile(quantiles, estimate.degrees) / estimate.degrees)

    def excess(effect: float) -> float:
        return float(np.mean(normal_above(bounds - effect) + normal_above(bounds + effect))) - POWER

    return float(estimate.standard_error * optimize.brentq(excess, 0.0, 2 * critical + 10))


@dataclass(frozen=True)
class Repetition:
    """The chances that a repeated experiment shows a difference above 0, a difference below 0, or equivalence."""

    above: float
    below: float
    equal: float


def repetition(
    estimate: Estimate, level: float, margin: float | None, equal_level: float, procedure: Procedure | None = None
) -> Repetition | None:
    """Predict what as many new runs on the same test speakers would show; None if the seed noise is unknown.

    - level: two-sided level of the test
    - equal_level: two-sided level of the interval that must lie within ± margin

    The prediction assumes that all true differences are equally likely: the measured difference is too large as often
    as too small (Goodman 1992). If most true differences are small, shown differences are repeated less often.
    """
    procedure, seeds = procedure or FixedLength(), estimate.over_seeds
    if seeds is None or not seeds.variance or not estimate.standard_error:
        return None
    # quantiles for the true variance over seeds given the measured variance, and for the variance in the repetition
    quantiles = chi_square_quantile((np.arange(60) + 0.5) / 60, seeds.degrees) / seeds.degrees
    true = seeds.variance / quantiles[:, None]
    of_speakers = max(0.0, estimate.standard_error**2 - seeds.variance)
    errors = np.sqrt(of_speakers + true * quantiles) / estimate.standard_error
    deviations = np.sqrt(2 * true)  # the measured and the repeated difference both deviate from the true one

    def beyond(bounds: Array, sign: int) -> float:
        """Return the chance that the repeated difference is above `bounds` (sign 1) or below −`bounds` (sign −1)."""
        return float(np.mean(normal_above((bounds - sign * estimate.value) / deviations)))

    bounds, room = procedure.half_width(estimate, level) * errors, np.zeros_like(errors)
    if margin is not None:
        room = np.clip(np.minimum(bounds, margin - procedure.half_width(estimate, equal_level) * errors), 0.0, None)
    return Repetition(beyond(bounds, 1), beyond(bounds, -1), 1 - beyond(room, 1) - beyond(room, -1))


def shown_equal(estimate: Estimate, level: float) -> float:
    """Return the smallest margin within which equal arms are shown to be equivalent with probability POWER.

    level: two-sided level, which is twice the level of each one-sided test (Schuirmann 1987)
    """
    quantiles = t_bound(level / 2, estimate.degrees) + t_bound((1 - POWER) / 2, estimate.degrees)
    return float(quantiles * estimate.standard_error)


# function that returns the smallest difference that an estimate detects, or the smallest margin for equivalence
Reach = Callable[[Estimate], float]


@dataclass(frozen=True)
class Levers:
    """The number of seeds per arm, or of test speakers, that would detect a difference or show equivalence.

    - seeds: seeds per arm that are enough with the present speakers; None if no number is enough
    - speakers: test speakers that are enough with the present seeds; None if no number is enough
    - cheaper: the number that has to grow by the smaller factor; "neither" if no number of seeds or speakers is enough,
      "none" if the present numbers are enough. A tie is "speakers", because another speaker only costs decoding, while
      another seed costs a training run of every arm.
    """

    seeds: int | None
    speakers: int | None
    cheaper: Literal["seeds", "speakers", "neither", "none"]


def levers(difference: float, estimate: Estimate, level: float) -> Levers:
    """Return how many seeds or speakers would detect a true difference, given as a fraction."""
    return _find_levers(difference, estimate, lambda resized: detectable_difference(resized, level))


def levers_to_equal(margin: float, estimate: Estimate, level: float) -> Levers:
    """Return how many seeds or speakers would show that equal arms are equivalent. level: as in `shown_equal`."""
    return _find_levers(margin, estimate, lambda resized: shown_equal(resized, level))


def _find_levers(size: float, estimate: Estimate, reach: Reach) -> Levers:
    seeds = fewest(lambda count: reach(with_seeds(estimate, count)) <= size, MOST)
    speakers = None
    if estimate.over_speakers is not None and math.isfinite(estimate.over_speakers.standard_error):
        speakers = fewest(lambda count: reach(_with_speakers(estimate, count)) <= size, MOST)
    if reach(estimate) <= size:
        return Levers(seeds, speakers, "none")
    more_seeds = math.inf if seeds is None else seeds / estimate.models
    more_speakers = math.inf if speakers is None else speakers / estimate.speakers
    if math.isinf(more_seeds) and math.isinf(more_speakers):
        return Levers(seeds, speakers, "neither")
    return Levers(seeds, speakers, "seeds" if more_seeds < more_speakers else "speakers")


def with_seeds(estimate: Estimate, seeds: int) -> Estimate:
    """Return the estimate to expect with `seeds` runs of every arm: the same difference with a new standard error."""
    if not estimate.arms:
        return estimate  # a single model has no seed noise
    lost = 2 * (seeds // 5) if estimate.trimmed else 0
    arms = tuple(replace(arm, runs=seeds, degrees=seeds - lost - 1) for arm in estimate.arms)
    speakers = estimate.over_speakers
    if speakers is not None:
        present = sum(arm.shared / arm.runs for arm in estimate.arms)
        shared = sum(arm.shared / seeds for arm in arms)
        speakers = Part(math.sqrt(max(0.0, speakers.variance - present) + shared), speakers.degrees)
    return _resize(estimate, arms, speakers)


def _with_speakers(estimate: Estimate, speakers: int) -> Estimate:
    """Return the estimate to expect with `speakers` test speakers, which also change the noise shared with seeds."""
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
