"""How the noise of seeds and of speakers adds up, over many invented parts."""

import math

import numpy as np
import pytest

from asr_ablations.statistics.estimate import Part, RunNoise, combined, over_seeds


def invented(generator: np.random.Generator) -> tuple[list[RunNoise], Part]:
    arms = []
    for _ in range(generator.integers(1, 5)):
        runs, variance = int(generator.integers(2, 12)), float(generator.exponential())
        arms.append(RunNoise(runs, runs - 1, variance, shared=variance * generator.random()))
    return arms, Part(float(generator.exponential(0.5)), float(generator.integers(1, 40)))


def test_welch_by_hand() -> None:
    """Variances 8 and 9 of 4 and 3 runs: 2 + 3, and 5² / (2² / 3 + 3² / 2) = 150 / 35."""
    part = over_seeds([RunNoise(4, 3, 8.0), RunNoise(3, 2, 9.0)])
    assert part.variance == pytest.approx(5)
    assert part.degrees == pytest.approx(150 / 35)


def test_the_shared_part_is_taken_off_once() -> None:
    """One arm of 5 runs: 4 of seeds and 9 of speakers, of which 1 is in both; 12² / (4² / 4 + 9² / 9 + 1² / 36)."""
    part = combined([RunNoise(5, 4, 20.0, shared=5.0)], Part(3.0, 9))
    assert part.variance == pytest.approx(12)
    assert part.degrees == pytest.approx(144 / (4 + 9 + 1 / 36))


def test_both_together_are_never_below_either() -> None:
    generator = np.random.default_rng(0)
    for _ in range(500):
        arms, speakers = invented(generator)
        seeds, both = over_seeds(arms), combined(arms, speakers)
        assert both.standard_error >= max(seeds.standard_error, speakers.standard_error) - 1e-12
        assert both.variance <= seeds.variance + speakers.variance + 1e-12
        least, most = min(seeds.degrees, speakers.degrees), sum(arm.degrees for arm in arms) + speakers.degrees
        assert least - 1e-9 <= both.degrees <= most + 1e-9


def test_one_source_alone() -> None:
    arms = [RunNoise(3, 2, 1.0)]
    assert combined(arms, None) == over_seeds(arms)
    assert combined([RunNoise(3, 2, 0.0)], Part(1.0, 9)) == Part(1.0, 9)
    assert math.isinf(combined(arms, Part(math.inf, 1)).standard_error)
    assert over_seeds([RunNoise(3, 2, 0.0), RunNoise(4, 3, 0.0)]) == Part(0.0, 5)
