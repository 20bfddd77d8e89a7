"""What is found, against Cohen's tables, and how many seeds or speakers it takes, against simulation."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from asr_ablations.statistics.estimate import Estimate, Part, RunNoise, combined, over_seeds
from asr_ablations.statistics.power import Anytime, found, found_in_four_of_five, levers, seeds_for, speakers_for


def design(deviation: float, runs: int, speakers: tuple[float, int] | None = None, shared: float = 0.0) -> Estimate:
    """Two equal arms; deviation: of a run over seeds; speakers: their standard error and number; shared: of a run."""
    arms = (RunNoise(runs, runs - 1, deviation**2, shared),) * 2
    part = None if speakers is None else Part(speakers[0], speakers[1] - 1)
    noise = combined(arms, part)
    return Estimate(
        value=0.0,
        standard_error=noise.standard_error,
        degrees=noise.degrees,
        information=runs / 2,
        over_seeds=over_seeds(arms),
        over_speakers=part,
        arms=arms,
        speakers=0 if speakers is None else speakers[1],
        unit="speakers",
        models=runs,
    )


def test_found_in_four_of_five_is_cohens() -> None:
    """Cohen (1988), table 2.4.1: at power 0.80 and two-sided 0.05, d = 0.50 takes 64 a group, d = 0.80 takes 26."""
    for count, effect in ((64, 0.50), (26, 0.80)):
        assert found_in_four_of_five(design(1.0, count), 0.05).value == pytest.approx(effect, abs=0.01)


@pytest.mark.parametrize(("effect", "count"), [(0.5, 64), (0.6, 45), (0.8, 26), (1.0, 17), (1.2, 12)])
def test_seeds_are_cohens(effect: float, count: int) -> None:
    """The same table, and d = 1.2 (12). In points of WER: seeds of sd 2 and a difference of 2 take 17; 2 (1.960 +
    0.842)² = 15.7 by the normal approximation, which forgets that the noise is estimated.
    """
    assert seeds_for(effect / 50, design(0.02, 3), 0.05) == count


def test_the_range_is_that_of_the_estimated_error() -> None:
    """In 90 % of all looks it holds what the true error would give."""
    truth, degrees = found(design(1.0, 4), 0.05), 6
    errors = np.sqrt(np.random.default_rng(0).chisquare(degrees, 2000) / degrees)
    look = found_in_four_of_five(design(1.0, 4), 0.05)
    covered = (errors * look.low <= truth) & (truth <= errors * look.high)
    assert look.value == truth
    assert np.mean(covered) == pytest.approx(0.9, abs=0.02)


def test_two_seeds_tell_little_of_what_they_find() -> None:
    """The ends of the docstring: √(χ²(0.95) / χ²(0.05)) of two degrees of freedom is 7.6."""
    look = found_in_four_of_five(design(1.0, 2), 0.05)
    assert look.high / look.low == pytest.approx(np.sqrt(5.991 / 0.1026), rel=0.01)  # a table of chi-square


def test_what_can_be_looked_at_any_time_finds_less() -> None:
    assert found(design(1.0, 10), 0.05, procedure=Anytime()) > 1.3 * found(design(1.0, 10), 0.05)
    assert found_in_four_of_five(design(1.0, 3), 0.05, Anytime()).value == np.inf


@pytest.mark.parametrize("runs", [2, 3, 10])
def test_a_difference_found_in_four_of_five_is(runs: int) -> None:
    generator, degrees = np.random.default_rng(runs), 2 * runs - 2
    errors = np.sqrt(generator.chisquare(degrees, 100_000) / degrees)
    unit = replace(design(1.0, runs), standard_error=1.0)
    differences = generator.normal(found(unit, 0.05), 1, 100_000)
    assert np.mean(np.abs(differences) / errors > stats.t.ppf(0.975, degrees)) == pytest.approx(0.8, abs=0.01)


def test_speakers_forbid_what_seeds_cannot_buy() -> None:
    """Ten speakers of a standard error of 1 point: with endless seeds t of 9 degrees remains, 2.262 + about 0.9."""
    few = design(0.02, 5, (0.01, 10))
    assert seeds_for(0.01, few, 0.05) is None
    assert seeds_for(0.04, few, 0.05) is not None
    assert speakers_for(0.01, few, 0.05) is None  # the noise of seeds alone: 2 · √(2 / 5) = 1.3 points
    assert levers(0.01, few, 0.05).cheaper == "neither"
    assert levers(0.2, few, 0.05).cheaper == "none"


def test_the_cheaper_lever_is_that_of_the_larger_noise() -> None:
    assert levers(0.02, design(0.02, 5, (0.001, 10)), 0.05).cheaper == "seeds"
    assert levers(0.02, design(0.002, 5, (0.01, 10)), 0.05).cheaper == "speakers"
    assert levers(0.02, design(0.02, 5), 0.05).speakers is None


def test_the_numbers_proposed_are_enough_and_one_fewer_is_not() -> None:
    """Each lever against the noise of the size that it proposes, put together by hand."""
    arm_speaker, run_speaker, seeds = 0.03**2, 0.04**2, 0.02**2

    def sized(runs: int, speakers: int) -> Estimate:
        of_speakers = np.sqrt(2 * (arm_speaker + run_speaker / runs) / speakers)
        return design(
            float(np.sqrt(seeds + run_speaker / speakers)), runs, (of_speakers, speakers), run_speaker / speakers
        )

    now = sized(4, 20)
    runs, speakers = seeds_for(0.03, now, 0.05), speakers_for(0.052, now, 0.05)
    assert runs is not None
    assert speakers is not None
    assert found(sized(runs, 20), 0.05) <= 0.03 < found(sized(runs - 1, 20), 0.05)
    assert found(sized(4, speakers), 0.05) <= 0.052 < found(sized(4, speakers - 1), 0.05)


def test_one_model_gets_no_seeds() -> None:
    single = replace(design(0.02, 5, (0.01, 10)), arms=(), over_seeds=None, models=1, standard_error=0.01, degrees=9)
    assert seeds_for(0.005, single, 0.05) is None
    assert speakers_for(0.005, single, 0.05) == seeds_for_pairs(0.01 * np.sqrt(10), 0.005)


def seeds_for_pairs(deviation: float, difference: float) -> int:
    """The fewest differences of which a t test finds their mean in 80 %, by scipy's noncentral t."""
    for n in range(2, 1000):
        critical, shift = stats.t.ppf(0.975, n - 1), difference / deviation * np.sqrt(n)
        if stats.nct.sf(critical, n - 1, shift) + stats.nct.cdf(-critical, n - 1, shift) >= 0.8:
            return n
    raise AssertionError
