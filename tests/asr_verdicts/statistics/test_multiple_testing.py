"""Corrections for many questions, and for many looks."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from asr_ablations.comparison.seed_noise import seeds_to_equal, seeds_to_find
from asr_verdicts.statistics.alpha_spending import GroupSequential, levels, spent
from asr_verdicts.statistics.estimate import Estimate, contrast_estimate
from asr_verdicts.statistics.multiple_testing import holm_decisions
from asr_verdicts.statistics.procedures import Anytime, FixedLength, Procedure
from asr_verdicts.statistics.sample import Sample


def test_holm_by_hand_and_by_its_definition() -> None:
    """Four: 0.011 is below 0.05 / 4, 0.016 below 0.05 / 3, 0.04 is not below 0.05 / 2."""
    decisions = holm_decisions([0.016, 0.5, 0.011, 0.04])
    assert [decision.rejected for decision in decisions] == [True, False, True, False]
    assert [decision.level for decision in decisions] == pytest.approx([0.05 / 3, 0.05 / 2, 0.05 / 4, 0.05 / 2])
    assert [decision.p_adjusted for decision in decisions] == pytest.approx([0.048, 0.5, 0.044, 0.08])
    assert holm_decisions([]) == []
    # the largest (m − j + 1) p of all that are not larger than it (Wright 1992)
    for seed in range(20):
        ps = np.random.default_rng(seed).uniform(0, 0.3, 7).tolist()
        ranked = sorted(ps)
        expected = [max(min(1, (len(ps) - j) * q) for j, q in enumerate(ranked) if q <= p) for p in ps]
        assert [decision.p_adjusted for decision in holm_decisions(ps)] == pytest.approx(expected)
    assert {decision.rejected for decision in holm_decisions([0.0125] * 4)} == {True}
    assert {decision.rejected for decision in holm_decisions([0.013] * 4)} == {False}
    assert {decision.level for decision in holm_decisions([0.013] * 4)} == {0.0125}
    # also if count × (0.05 / count) is rounded up to more than 0.05
    for count in range(1, 50):
        at, above = 0.05 / count, float(np.nextafter(0.05 / count, 1))
        hit, missed = (holm_decisions([p] + [1.0] * (count - 1))[0] for p in (at, above))
        assert (hit.rejected, hit.p_adjusted <= 0.05) == (True, True)
        assert (missed.rejected, missed.p_adjusted > 0.05) == (False, True)


@pytest.mark.parametrize("procedure", [FixedLength(), Anytime()], ids=lambda procedure: procedure.name)
def test_an_interval_excludes_zero_exactly_where_it_is_rejected(procedure: Procedure) -> None:
    def invented(generator: np.random.Generator) -> Estimate:
        return Estimate(
            value=float(generator.choice([0, 2, 5, 10]) * generator.standard_normal()), standard_error=1.0,
            degrees=float(generator.choice([1.0, 2.5, 8.0, 40.0])),
            information=float(generator.choice([1, 2.5, 10, 30])), over_seeds=None, over_speakers=None, arms=(),
            speakers=0, effective=0.0, unit="speakers", models=3,
        )  # fmt: skip

    generator = np.random.default_rng(0)
    rejected = 0
    for _ in range(2000):
        family = [invented(generator) for _ in range(generator.integers(1, 12))]
        for estimate, decision in zip(family, holm_decisions([procedure.p(e) for e in family]), strict=True):
            excludes = abs(estimate.value) >= procedure.half_width(estimate, decision.level)
            assert excludes == decision.rejected == (decision.p_adjusted <= 0.05)
            rejected += decision.rejected
    assert 500 < rejected < 8000


def difference(runs: int, deviation: float = 0.01) -> Estimate:
    generator = np.random.default_rng(runs)
    arm, baseline = (Sample.of_rates(generator.normal(0.2, deviation, runs)) for _ in range(2))
    measured = contrast_estimate([(1, arm), (-1, baseline)])
    assert measured is not None
    return replace(measured, degrees=2.0 * runs - 2)


@pytest.mark.parametrize(("degrees", "information", "t"), [(4, 2.5, 3.0), (18, 5.0, 2.0), (38, 10.0, 4.0)])
def test_p_at_any_time_is_one_over_the_bayes_factor(degrees: float, information: float, t: float) -> None:
    """The mixture itself, by numerical integration: the noncentral t density averaged over normal effects of variance
    information / φ, over the central one. With the right Haar prior of the variance this ratio is a martingale (Wang &
    Ramdas, §4), and 1 / ratio is a p at any time.
    """
    measured = replace(difference(3), value=t, standard_error=1.0, degrees=degrees, information=information)

    def density(effect: float) -> float:
        """Of t up to a factor that does not depend on the effect: ∫ s^ν exp(−(s² + …) / 2) ds over the scale s."""
        peak = max(1.0, np.sqrt(degrees))

        def at_scale(s: float) -> float:
            return s**degrees * np.exp(-(s**2) / 2 - (t * s / np.sqrt(degrees) - effect) ** 2 / 2)

        return integrate.quad(at_scale, 0, 6 * peak, points=[peak])[0]

    spread = np.sqrt(information)
    mixed = integrate.quad(lambda e: density(e) * stats.norm.pdf(e, scale=spread), -8 * spread, 8 * spread)[0]
    assert Anytime().p(measured) == pytest.approx(min(1.0, density(0.0) / mixed), rel=1e-3)


LOOKS = (3, 5, 8, 12, 20)


def estimate(value: float, error: float, runs: int) -> Estimate:
    """Of two arms with so many runs each, exactly this far apart and with exactly this standard error."""
    spread = error * math.sqrt(runs / 2)
    luck = np.linspace(-1, 1, runs)
    luck *= spread / luck.std(ddof=1)
    found = contrast_estimate([(1.0, Sample(0.5 + value + luck)), (-1.0, Sample(0.5 + luck))])
    assert found is not None
    return found


def test_levels_are_those_of_the_published_recursion_and_one_look_is_students_test() -> None:
    found = estimate(0.02, 0.01, 5)
    procedure = GroupSequential((5,), 0)
    assert procedure.p(found) == pytest.approx(2 * stats.t.sf(2, found.degrees), rel=2e-3)
    assert procedure.half_width(found, 0.05) == pytest.approx(0.01 * stats.t.isf(0.025, found.degrees))
    # computed with another implementation of the recursion (Simpson's rule over 801 points), rounded to 1e-4
    assert levels(LOOKS, 0.05) == pytest.approx((0.0047, 0.0048, 0.0082, 0.0140, 0.0347), abs=6e-5)
    assert levels(LOOKS, 0.10) == pytest.approx((0.0094, 0.0101, 0.0172, 0.0294, 0.0730), abs=6e-5)


def test_the_chance_of_a_verdict_is_that_of_simulated_futures() -> None:
    """The remaining runs drawn many times with the variance and mean that the first ones show (a flat prior)."""
    procedure = GroupSequential(LOOKS, 1)
    rng = np.random.default_rng(1)
    now = estimate(0.01, 0.02, 5)
    chance = procedure.chance(now, 0.05, 0.02, 0.1)
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


def test_anytime_is_the_closed_formula_for_two_equal_arms() -> None:
    """φ = 1: r = 1 / (1 + n / 2), q = (r α²)^(1 / (2n − 1)), SE √((2n − 2)(1 − q) / (q − r))."""
    for runs in (3, 5, 10, 20):
        for level in (0.05, 0.01, 0.00625):
            measured = difference(runs)
            r = 1 / (1 + runs / 2)
            q = (r * level**2) ** (1 / (2 * runs - 1))
            expected = np.inf if q <= r else measured.standard_error * np.sqrt((2 * runs - 2) * (1 - q) / (q - r))
            assert Anytime().half_width(measured, level) == pytest.approx(expected)
    assert Anytime().half_width(difference(3), 0.05) == np.inf
    assert Anytime().p(replace(difference(3), value=1e9)) > 0.05


@pytest.mark.parametrize("looks", [(3,), (3, 5, 9), LOOKS, (2, 3, 5, 8, 12, 20, 32, 51, 60)])
def test_paths_without_a_difference_cross_as_often_as_was_spent(looks: tuple[int, ...]) -> None:
    """Simulated: sums of independent normal steps, held against the critical values look by look."""
    paths = 200_000
    steps = np.random.default_rng(0).standard_normal((paths, len(looks))) * np.sqrt(np.diff([0, *looks]))
    distances = np.abs(np.cumsum(steps, axis=1)) / np.sqrt(looks)
    for gamma in (-4.0, -1.0, 0.0, 1.0):
        crossed = distances > stats.norm.isf(np.array(levels(looks, 0.05, gamma)) / 2)
        by_now = np.logical_or.accumulate(crossed, axis=1).mean(axis=0)
        wanted = [spent(runs / looks[-1], 0.05, gamma) for runs in looks]
        assert by_now == pytest.approx(wanted, abs=4 * math.sqrt(0.05 * 0.95 / paths))


def test_the_repeated_p_and_the_repeated_interval_agree() -> None:
    """p ≤ α / j exactly where the interval at α / j excludes 0, on both sides of the border."""
    for look, runs in enumerate(LOOKS):
        for level in (0.05, 0.05 / 2, 0.05 / 3, 0.05 / 7):
            procedure = GroupSequential(LOOKS, look)
            border = procedure.half_width(estimate(0.0, 0.01, runs), level)
            for factor, inside in ((1 - 1e-6, True), (1 + 1e-6, False)):
                found = estimate(factor * border, 0.01, runs)
                assert (abs(found.value) <= procedure.half_width(found, level)) is inside
                assert (procedure.p(found) > level) is inside


def test_seeds_that_a_difference_takes() -> None:
    """Against n = 2 σ² (z + z')² / δ², which leaves out that σ is estimated: a seed or two more."""
    for deviation, size, find, equal in ((2, 2, 16, 18), (2, 0.5, 252, 275), (1, 0.5, 63, 69)):
        assert seeds_to_find(size, deviation, 0.05) - find in (0, 1, 2)
        assert seeds_to_equal(size, deviation, 0.05) - equal in (-1, 0, 1, 2)
