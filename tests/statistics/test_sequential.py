"""Planned looks: what each may spend, and that tests and intervals at them hold."""

import math

import numpy as np
import pytest
from scipy import stats

from asr_ablations.statistics.alpha_spending import (
    GroupSequential,
    levels,
    planned_looks,
    seeds_to_equal,
    seeds_to_find,
    spent,
)
from asr_ablations.statistics.estimate import Estimate, contrast_estimate
from asr_ablations.statistics.sample import Sample

LOOKS = (3, 5, 8, 12, 20)


def estimate(value: float, error: float, runs: int) -> Estimate:
    """Of two arms with so many runs each, exactly this far apart and with exactly this standard error."""
    spread = error * math.sqrt(runs / 2)
    luck = np.linspace(-1, 1, runs)
    luck *= spread / luck.std(ddof=1)
    found = contrast_estimate([(1.0, Sample(0.5 + value + luck)), (-1.0, Sample(0.5 + luck))])
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [(0.05, (0.0047, 0.0048, 0.0082, 0.0140, 0.0347)), (0.10, (0.0094, 0.0101, 0.0172, 0.0294, 0.0730))],
)
def test_levels_are_those_of_the_published_recursion(alpha: float, expected: tuple[float, ...]) -> None:
    """Computed with another implementation of the recursion (Simpson's rule over 801 points), rounded to 1e-4."""
    assert levels(LOOKS, alpha) == pytest.approx(expected, abs=6e-5)


@pytest.mark.parametrize("looks", [(3,), (3, 5, 9), LOOKS, (2, 3, 5, 8, 12, 20, 32, 51, 60)])
@pytest.mark.parametrize("gamma", [-4.0, -1.0, 0.0, 1.0])
def test_paths_without_a_difference_cross_as_often_as_was_spent(looks: tuple[int, ...], gamma: float) -> None:
    """Simulated: sums of independent normal steps, held against the critical values look by look."""
    paths = 200_000
    rng = np.random.default_rng(0)
    steps = np.diff([0, *looks])
    sums = np.cumsum(rng.standard_normal((paths, len(looks))) * np.sqrt(steps), axis=1)
    crossed = np.abs(sums) / np.sqrt(looks) > stats.norm.isf(np.array(levels(looks, 0.05, gamma)) / 2)
    by_now = np.logical_or.accumulate(crossed, axis=1).mean(axis=0)
    wanted = [spent(runs / looks[-1], 0.05, gamma) for runs in looks]
    assert by_now == pytest.approx(wanted, abs=4 * math.sqrt(0.05 * 0.95 / paths))


@pytest.mark.parametrize("look", range(5))
@pytest.mark.parametrize("share", [1, 2, 3, 7])
def test_the_repeated_p_and_the_repeated_interval_agree(look: int, share: int) -> None:
    """p ≤ α / j exactly where the interval at α / j excludes 0, on both sides of the border."""
    procedure = GroupSequential(LOOKS, look)
    level = 0.05 / share
    border = procedure.half_width(estimate(0.0, 0.01, LOOKS[look]), level)
    for factor, inside in ((1 - 1e-6, True), (1 + 1e-6, False)):
        found = estimate(factor * border, 0.01, LOOKS[look])
        assert (abs(found.value) <= procedure.half_width(found, level)) is inside
        assert (procedure.p(found) > level) is inside


def test_one_look_is_students_test() -> None:
    found = estimate(0.02, 0.01, 5)
    procedure = GroupSequential((5,), 0)
    assert procedure.p(found) == pytest.approx(2 * stats.t.sf(2, found.degrees), rel=2e-3)
    assert procedure.half_width(found, 0.05) == pytest.approx(0.01 * stats.t.isf(0.025, found.degrees))


def test_the_chance_of_a_verdict_is_that_of_simulated_futures() -> None:
    """The remaining runs drawn many times with the variance and mean that the first ones show (a flat prior)."""
    procedure = GroupSequential(LOOKS, 1)
    rng = np.random.default_rng(1)
    now = estimate(0.01, 0.02, 5)
    chance = procedure.chance(now, 0.05, 0.02, 0.1)
    assert now.over_seeds is not None
    most, decided, futures = 20, 0, 4000
    last = GroupSequential(LOOKS, 4)
    for _ in range(futures):
        error = now.over_seeds.standard_error
        truth = now.value + error * rng.standard_t(now.over_seeds.degrees)
        rest = truth + rng.standard_normal() * error * math.sqrt(5 / (most - 5))
        mean = 5 / most * now.value + (1 - 5 / most) * rest
        end = estimate(mean, error * math.sqrt(5 / most), most)
        shown = abs(mean) > last.half_width(end, 0.05)
        decided += shown or abs(mean) + last.half_width(end, 0.1) < 0.02
    assert chance == pytest.approx(decided / futures, abs=0.04)


def test_looks_grow_by_a_factor_up_to_the_most() -> None:
    assert planned_looks(20) == LOOKS
    assert planned_looks(60) == (3, 5, 8, 12, 20, 32, 51, 60)
    assert planned_looks(9) == (3, 5, 9)
    assert planned_looks(2) == (2,)


@pytest.mark.parametrize(
    ("deviation", "difference", "find", "equal"), [(2, 2, 16, 18), (2, 0.5, 252, 275), (1, 0.5, 63, 69)]
)
def test_seeds_that_a_difference_takes(deviation: float, difference: float, find: int, equal: int) -> None:
    """Against n = 2 σ² (z + z')² / δ², which leaves out that σ is estimated: a seed or two more."""
    assert seeds_to_find(difference, deviation, 0.05) - find in (0, 1, 2)
    assert seeds_to_equal(difference, deviation, 0.05) - equal in (-1, 0, 1, 2)
