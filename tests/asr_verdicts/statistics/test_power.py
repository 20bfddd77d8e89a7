"""Power, and what would raise it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from asr_verdicts.statistics.estimate import Estimate, Part, RunNoise, combined, over_seeds
from asr_verdicts.statistics.power import (
    Levers,
    detectable_difference,
    detectable_range,
    levers,
    repetition,
    with_seeds,
)
from asr_verdicts.statistics.procedures import FixedLength


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


def _asked_twice(truth: float, deviation: float, generator: np.random.Generator) -> tuple[str, float, bool]:
    """What a sweep of two arms of five runs shows, the chance that it shows it again, and whether it does."""
    (first, estimate), (second, _) = (_asked(truth, deviation, 5, 2.0, generator) for _ in range(2))
    chances = repetition(estimate, 0.05, 2.0, 0.1)
    of = {"above": chances.above, "below": chances.below, "equal": chances.equal}
    kind = "shown" if first in ("above", "below") else first
    return kind, of.get(first, 1 - sum(of.values())), first == second


def _asked(
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
    generator = np.random.default_rng(0)
    asked = [
        _asked_twice(generator.uniform(-12, 12), 10 ** generator.uniform(-0.5, 0.5), generator) for _ in range(3000)
    ]
    for kind, fewest in (("shown", 2000), ("neither", 250)):
        chances = [(chance, same) for outcome, chance, same in asked if outcome == kind]
        assert len(chances) > fewest
        assert np.mean([chance for chance, _ in chances]) == pytest.approx(np.mean([s for _, s in chances]), abs=0.04)
    # of equal arms 5 % are shown, half of them with the same sign again: less often than predicted
    asked = [_asked_twice(0.0, 1.0, generator) for _ in range(3000)]
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
