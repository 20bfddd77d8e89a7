"""Samples, intervals, the noise between seeds, power, and what would raise it."""

import math
import re
from dataclasses import replace
from math import comb

import numpy as np
import pytest
from scipy import stats

from asr_verdicts.statistics.distributions import (
    chi_square_quantile,
    fisher,
    normal_above,
    normal_bound,
    t_above,
    t_bound,
)
from asr_verdicts.statistics.estimate import UPPER, Estimate, Part, RunNoise, combined, over_seeds, run_noise
from asr_verdicts.statistics.intervals import Interval, shared_variance, speaker_interval
from asr_verdicts.statistics.power import (
    Levers,
    detectable_difference,
    detectable_range,
    levers,
    repetition,
    with_seeds,
)
from asr_verdicts.statistics.procedures import FixedLength
from asr_verdicts.statistics.sample import Sample
from tests.helpers.interval_coverage import CARRIED_BY_FEW, SCENARIOS, SPEAKERS_DRAWN, Scenario, hits


def ends(interval: Interval) -> tuple[float, float]:
    return interval.estimate - interval.half_width, interval.estimate + interval.half_width


def test_utterances_of_one_speaker_are_not_independent() -> None:
    """Each of 6 speakers said the same sentence 50 times: that adds no information."""
    once = np.array([1.0, -1, 2, 0, 1, 3])
    ten, names = np.full(6, 10.0), np.arange(6).astype(str)
    single = speaker_interval(once, ten, names)
    often = speaker_interval(once.repeat(50), ten.repeat(50), names.repeat(50))
    assert ends(single) == pytest.approx(ends(often))
    interval = speaker_interval(np.array([0.0, 1, 2, 1]), np.full(4, 5.0), np.array(["a"] * 4))
    assert interval.degrees == 3
    assert 0 < interval.half_width < np.inf
    for count in (0, 1):
        nothing = speaker_interval(np.ones(count), np.full(count, 4.0), np.array(["a"] * count))
        assert nothing.half_width == np.inf


def test_shared_variance_is_how_seeds_differ_by_speaker() -> None:
    words, owners = np.full(100, 8.0), np.arange(20).astype(str).repeat(5)
    even = np.outer([1.0, 2.0, 3.0], np.ones(100))  # seeds differ, and alike on every speaker
    assert shared_variance(even, words, owners) == pytest.approx(0)
    turned = np.stack([np.tile([1.0] * 5 + [3.0] * 5, 10), np.tile([3.0] * 5 + [1.0] * 5, 10)])
    per_speaker = np.var([5.0, 15.0], ddof=1)
    assert shared_variance(turned, words, owners) == pytest.approx(20 * per_speaker / 2 / 800**2)


def test_welch_and_the_shared_part_by_hand() -> None:
    """Variances 8 and 9 of 4 and 3 runs: 2 + 3, and of their upper ends, 2 · 3 / χ²(3) and 3 · 2 / χ²(2)."""
    part = over_seeds([RunNoise(4, 3, 8.0), RunNoise(3, 2, 9.0)])
    high, other = 6 / stats.chi2.ppf(UPPER, 3), 6 / stats.chi2.ppf(UPPER, 2)
    assert part.variance == pytest.approx(5)
    assert part.degrees == pytest.approx((high + other) ** 2 / (high**2 / 3 + other**2 / 2))
    # one arm of 5 runs: 4 of seeds and 9 of speakers, of which 1 is in both
    part = combined([RunNoise(5, 4, 20.0, shared=5.0)], Part(3.0, 9))
    seeds, speakers = 16 / stats.chi2.ppf(UPPER, 4), 81 / stats.chi2.ppf(UPPER, 9)
    assert part.variance == pytest.approx(12)
    assert part.degrees == pytest.approx((seeds + speakers - 1) ** 2 / (seeds**2 / 4 + speakers**2 / 9 + 1 / 36))
    arms = [RunNoise(3, 2, 1.0)]
    assert combined(arms, None) == over_seeds(arms)
    assert combined([RunNoise(3, 2, 0.0)], Part(1.0, 9)) == Part(1.0, 9)
    assert math.isinf(combined(arms, Part(math.inf, 1)).standard_error)
    assert over_seeds([RunNoise(3, 2, 0.0), RunNoise(4, 3, 0.0)]) == Part(0.0, 5)
    assert over_seeds([run_noise([1.0, 1.0])] * 2) == Part(0.0, 2)


def test_both_together_are_never_below_either() -> None:
    def invented(generator: np.random.Generator) -> tuple[list[RunNoise], Part]:
        arms = []
        for _ in range(generator.integers(1, 5)):
            runs, variance = int(generator.integers(2, 12)), float(generator.exponential())
            arms.append(RunNoise(runs, runs - 1, variance, shared=variance * generator.random()))
        return arms, Part(float(generator.exponential(0.5)), float(generator.integers(1, 40)))

    generator = np.random.default_rng(0)
    for _ in range(500):
        arms, speakers = invented(generator)
        seeds, both = over_seeds(arms), combined(arms, speakers)
        assert both.standard_error >= max(seeds.standard_error, speakers.standard_error) - 1e-12
        assert both.variance <= seeds.variance + speakers.variance + 1e-12
        least, most = min(seeds.degrees, speakers.degrees), sum(arm.degrees for arm in arms) + speakers.degrees
        assert least - 1e-9 <= both.degrees <= most + 1e-9


def test_the_interval_is_the_textbooks_for_equal_speakers() -> None:
    """Equal words: the rate is a mean over speakers, whose standard error is s / √n."""
    errors = np.random.default_rng(0).normal(2, 1, 30)
    interval = speaker_interval(errors, np.full(30, 10.0), np.arange(30).astype(str))
    assert interval.standard_error == pytest.approx(errors.std(ddof=1) / 10 / np.sqrt(30), rel=0.03)
    assert interval.estimate == pytest.approx(errors.mean() / 10)
    for speakers in (5, 30):
        errors = np.random.default_rng(1).normal(2, 1, speakers)
        interval = speaker_interval(
            errors, np.full(speakers, 10.0), np.arange(speakers).astype(str), replicates=100_000
        )
        expected = stats.ttest_1samp(errors / 10, 0).confidence_interval(0.95)
        assert ends(interval) == pytest.approx((expected.low, expected.high), abs=0.002)


def coverage(scenario: Scenario, speakers: int) -> float:
    """Of 1,000 trials: the standard error of 95 % is 0.7 points."""
    return hits(scenario, speakers, 1000, seed=speakers) / 1000


@pytest.mark.slow
@pytest.mark.parametrize("speakers", [5, 40])
@pytest.mark.parametrize("name", SCENARIOS)
def test_coverage_is_95_percent_within_2(name: str, speakers: int) -> None:
    assert coverage(SCENARIOS[name], speakers) == pytest.approx(0.95, abs=0.02)


@pytest.mark.slow
def test_known_limits_of_the_coverage() -> None:
    """If few speakers carry the difference, and if the speakers of a unit are taken for independent draws."""
    assert all(0.84 <= coverage(CARRIED_BY_FEW, speakers) <= 0.94 for speakers in (5, 40))
    assert coverage(SPEAKERS_DRAWN, 10) < 0.88


def test_unequal_numbers_have_fewer_degrees_than_welchs() -> None:
    """If the variance of few runs is small by luck, Welch's degrees are those of the many."""
    for counts in ((2, 5), (10, 4), (2, 18)):
        generator = np.random.default_rng(0)
        ours, welchs = [], []
        for _ in range(20):
            first, second = (generator.normal(0.1, 0.01, n) for n in counts)
            ours.append(over_seeds([run_noise(values.tolist()) for values in (first, second)]).degrees)
            welchs.append(stats.ttest_ind(first, second, equal_var=False).df)
        assert min(ours) >= min(counts) - 1 - 1e-9
        assert np.mean(ours) < 0.9 * np.mean(welchs)


def test_rates_grain_and_units_of_a_sample() -> None:
    words, errors, speakers = np.array([4.0, 6.0]), np.zeros((1, 2)), np.array(["a", "b"])
    sample = Sample.of_errors(np.array([[1.0, 2.0], [4.0, 6.0]]), words, speakers)
    assert sample.rates.tolist() == [0.3, 1.0]  # the second run diverged: as many errors as words
    assert sample.grain == 0.1
    assert Sample.of_rates(np.array([0.1]), total=200).grain == 0.005
    assert Sample.of_rates(np.array([0.1])).grain == 0
    assert Sample.of_errors(np.zeros((2, 0)), np.zeros(0)).rates.tolist() == [0, 0]
    units = Sample.of_errors(errors, words).units
    assert units is not None
    assert len(set(units)) == 2  # without speakers every utterance is one
    sample = Sample.of_errors(errors, words, speakers)
    assert sample.has_utterances_of(Sample.of_errors(errors + 1, words, speakers))
    assert not sample.has_utterances_of(Sample.of_errors(errors, words + 1, speakers))
    assert not sample.has_utterances_of(Sample.of_errors(errors, words, np.array(["a", "c"])))
    assert not sample.has_utterances_of(Sample.of_rates(np.array([0.1])))
    with pytest.raises(ValueError, match="finite"):
        Sample.of_rates(np.array([0.1, np.nan]))
    with pytest.raises(ValueError, match=re.escape("shape (1, 3), expected (runs, utterances) = (1, 2)")):
        Sample.of_errors(np.zeros((1, 3)), words)
    with pytest.raises(ValueError, match="1 speakers for 2 utterances"):
        Sample.of_errors(errors, words, np.array(["a"]))


def test_distributions_are_scipys_to_the_bit() -> None:
    probabilities = [1e-300, 1e-14, 0.001, 0.025, 0.2, 0.5, 0.9]
    shares = (np.arange(2000) + 0.5) / 2000
    values = np.array([-np.inf, -50, -1, 0, 0.3, 2, 40, 1e5, np.inf])
    for degrees in (0.3, 1, 1.5, 2, 3.7, 10, 100, 1e6, np.inf):
        np.testing.assert_array_equal(t_above(values, degrees), stats.t.sf(values, degrees))
        bounds = [t_bound(probability, degrees) for probability in probabilities]
        np.testing.assert_array_equal(bounds, stats.t.isf(probabilities, degrees))
        if np.isfinite(degrees):
            np.testing.assert_array_equal(chi_square_quantile(shares, degrees), stats.chi2.ppf(shares, degrees))
    values = np.linspace(-40, 40, 999)
    np.testing.assert_array_equal(normal_above(values), stats.norm.sf(values))
    np.testing.assert_array_equal([normal_bound(one) for one in probabilities], stats.norm.isf(probabilities))


def test_fishers_exact_test() -> None:
    """The lady tasting tea (Fisher 1935, ch. 2): three of four right has a one-sided p of 17 / 70, and the table is
    symmetric. Two of eight, both in one arm: 2 · C(8, 2) / C(16, 2).
    """
    assert fisher(3, 4, 1, 4) == pytest.approx(34 / 70)
    assert fisher(4, 4, 0, 4) == pytest.approx(2 / comb(8, 4))
    assert fisher(0, 5, 0, 5) == 1
    assert fisher(2, 8, 0, 8) == pytest.approx(2 * comb(8, 2) / comb(16, 2))


def design(deviation: float, runs: int, speakers: tuple[float, int] | None = None, shared: float = 0.0) -> Estimate:
    """Two equal arms; deviation: of a run over seeds; speakers: their standard error and number; shared: of a run."""
    arms = (RunNoise(runs, runs - 1, deviation**2, shared),) * 2
    part = None if speakers is None else Part(speakers[0], speakers[1] - 1)
    noise = combined(arms, part)
    return Estimate(
        value=0.0, standard_error=noise.standard_error, degrees=noise.degrees, information=runs / 2,
        over_seeds=over_seeds(arms), over_speakers=part, arms=arms, speakers=0 if speakers is None else speakers[1],
        effective=0.0 if speakers is None else speakers[1], unit="speakers", models=runs,
    )  # fmt: skip


def test_the_range_is_that_of_the_estimated_error() -> None:
    """In 90 % of all looks it holds what the true error would give."""
    truth, degrees = detectable_difference(design(1.0, 4), 0.05), 6
    errors = np.sqrt(np.random.default_rng(0).chisquare(degrees, 2000) / degrees)
    look = detectable_range(design(1.0, 4), 0.05)
    covered = (errors * look.low <= truth) & (truth <= errors * look.high)
    assert look.value == truth
    assert np.mean(covered) == pytest.approx(0.9, abs=0.02)
    two = detectable_range(design(1.0, 2), 0.05)  # √(χ²(0.95) / χ²(0.05)) of two degrees of freedom, from a table
    assert two.high / two.low == pytest.approx(np.sqrt(5.991 / 0.1026), rel=0.01)


def test_the_numbers_proposed_are_enough_and_one_fewer_is_not() -> None:
    """Each lever against the noise of the size that it proposes, put together by hand."""
    arm_speaker, run_speaker, seeds = 0.03**2, 0.04**2, 0.02**2

    def sized(runs: int, speakers: int) -> Estimate:
        of_speakers = np.sqrt(2 * (arm_speaker + run_speaker / runs) / speakers)
        return design(
            float(np.sqrt(seeds + run_speaker / speakers)), runs, (of_speakers, speakers), run_speaker / speakers
        )

    now = sized(4, 20)
    runs, speakers = levers(0.03, now, 0.05).seeds, levers(0.052, now, 0.05).speakers
    assert runs is not None
    assert speakers is not None
    assert detectable_difference(sized(runs, 20), 0.05) <= 0.03 < detectable_difference(sized(runs - 1, 20), 0.05)
    assert (
        detectable_difference(sized(4, speakers), 0.05) <= 0.052 < detectable_difference(sized(4, speakers - 1), 0.05)
    )
    plain = design(0.02, 4)
    assert with_seeds(plain, 10).degrees == pytest.approx(2 * 9)  # Welch's, of two equal arms
    assert with_seeds(replace(plain, trimmed=True), 10).degrees == pytest.approx(2 * 5)  # two runs off either end


def test_power_is_cohens() -> None:
    """Cohen (1988), table 2.4.1, and d = 1.2: seeds of sd 2 and a difference of 2 take 17; 2 (1.960 + 0.842)² = 15.7 by
    the normal approximation, which forgets that the noise is estimated.
    """
    for count, effect in ((64, 0.50), (26, 0.80)):
        assert detectable_range(design(1.0, count), 0.05).value == pytest.approx(effect, abs=0.01)
    for effect, count in ((0.5, 64), (0.6, 45), (0.8, 26), (1.0, 17), (1.2, 12)):
        assert levers(effect / 50, design(0.02, 3), 0.05).seeds == count


def test_a_detectable_difference_is_detected_in_four_of_five() -> None:
    for runs in (2, 3, 10):
        generator, degrees = np.random.default_rng(runs), 2 * runs - 2
        errors = np.sqrt(generator.chisquare(degrees, 100_000) / degrees)
        unit = replace(design(1.0, runs), standard_error=1.0)
        differences = generator.normal(detectable_difference(unit, 0.05), 1, 100_000)
        found = np.abs(differences) / errors > stats.t.ppf(0.975, degrees)
        assert np.mean(found) == pytest.approx(0.8, abs=0.01)


@pytest.mark.slow
def test_a_repetition_is_predicted_where_every_truth_is_as_likely() -> None:
    """True differences over a range that is wide next to the noise, and deviations of a run over a factor of ten."""

    def ask(
        truth: float, deviation: float, runs: int, margin: float, generator: np.random.Generator
    ) -> tuple[str, Estimate]:
        """What a sweep of two arms shows, and its estimate."""
        variances = deviation**2 * generator.chisquare(runs - 1, 2) / (runs - 1)
        arms = tuple(RunNoise(runs, runs - 1, float(variance)) for variance in variances)
        noise = combined(arms, None)
        value = float(truth + deviation * generator.normal(0, np.sqrt(2 / runs)))
        estimate = replace(
            design(1.0, runs), value=value, standard_error=noise.standard_error, degrees=noise.degrees, arms=arms,
            over_seeds=over_seeds(arms),
        )  # fmt: skip
        if FixedLength().p(estimate) <= 0.05:
            return ("above" if value > 0 else "below"), estimate
        return ("equal" if abs(value) + FixedLength().half_width(estimate, 0.1) < margin else "neither"), estimate

    def ask_twice(truth: float, deviation: float, generator: np.random.Generator) -> tuple[str, float, bool]:
        """What a sweep of two arms of five runs shows, the chance that it shows it again, and whether it does."""
        (first, estimate), (second, _) = (ask(truth, deviation, 5, 2.0, generator) for _ in range(2))
        chances = repetition(estimate, 0.05, 2.0, 0.1)
        of = {"above": chances.above, "below": chances.below, "equal": chances.equal}
        kind = "shown" if first in ("above", "below") else first
        return kind, of.get(first, 1 - sum(of.values())), first == second

    generator = np.random.default_rng(0)
    asked = [ask_twice(generator.uniform(-12, 12), 10 ** generator.uniform(-0.5, 0.5), generator) for _ in range(3000)]
    for kind, fewest in (("shown", 2000), ("neither", 250)):
        chances = [(chance, same) for outcome, chance, same in asked if outcome == kind]
        assert len(chances) > fewest
        assert np.mean([chance for chance, _ in chances]) == pytest.approx(np.mean([s for _, s in chances]), abs=0.04)
    # of equal arms 5 % are shown, half of them with the same sign again: less often than predicted
    asked = [ask_twice(0.0, 1.0, generator) for _ in range(3000)]
    shown = [(chance, same) for outcome, chance, same in asked if outcome == "shown"]
    assert np.mean([chance for chance, _ in shown]) > 0.5
    assert np.mean([same for _, same in shown]) < 0.1


def test_repetitions_at_the_ends_and_of_one_model() -> None:
    far = repetition(replace(design(0.02, 5), value=-1.0), 0.05, None, 0.1)
    assert (far.above, far.equal) == (pytest.approx(0, abs=1e-6), pytest.approx(0, abs=1e-12))
    assert far.below == pytest.approx(1, abs=1e-6)
    single = replace(design(0.02, 5, (0.01, 10)), arms=(), over_seeds=None, models=1, standard_error=0.01, degrees=9)
    assert repetition(single, 0.05, 0.02, 0.1) is None

    def enough(n: int) -> bool:
        """A t test of n differences finds their mean in 80 %, by scipy's noncentral t."""
        critical, shift = stats.t.ppf(0.975, n - 1), 0.005 / (0.01 * np.sqrt(10)) * np.sqrt(n)
        return bool(stats.nct.sf(critical, n - 1, shift) + stats.nct.cdf(-critical, n - 1, shift) >= 0.8)

    fewest = next(n for n in range(2, 1000) if enough(n))
    assert levers(0.005, single, 0.05) == Levers(None, fewest, "speakers")  # one model gets no seeds


def test_the_cheaper_lever_is_that_of_the_larger_noise_and_speakers_forbid_what_seeds_cannot_buy() -> None:
    """Ten speakers of a standard error of 1 point: with endless seeds t of 9 degrees remains, 2.262 + about 0.9."""
    few = design(0.02, 5, (0.01, 10))
    # the noise of seeds alone: 2 · √(2 / 5) = 1.3 points
    assert levers(0.01, few, 0.05) == Levers(None, None, "neither")
    assert levers(0.04, few, 0.05).seeds is not None
    assert levers(0.2, few, 0.05).cheaper == "none"
    assert levers(0.02, design(0.02, 5, (0.001, 10)), 0.05).cheaper == "seeds"
    assert levers(0.02, design(0.002, 5, (0.01, 10)), 0.05).cheaper == "speakers"
    assert levers(0.02, design(0.02, 5), 0.05).speakers is None
