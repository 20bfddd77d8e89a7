"""Noise of seeds and of speakers in the same verdict: false alarms of identical arms, and true effects."""

import numpy as np
import pytest

from asr_ablations.statistics.bootstrap import speaker_interval
from asr_ablations.statistics.difference import error_difference, rate_difference, shared_variance
from asr_ablations.statistics.mapsswe import matched_pairs
from asr_ablations.statistics.seeds import holm

SPEAKERS = np.arange(20).astype(str).repeat(5)


def arm(generator: np.random.Generator, seeds: int, rate: float, seed_noise: float) -> np.ndarray:
    """Errors (seed, utterance) of 100 utterances of 8 words; seeds differ by seed_noise in their true rate."""
    hard = np.exp(0.4 * np.random.default_rng(7).standard_normal(20)).repeat(5)
    rates = np.clip(generator.normal(rate, seed_noise, (seeds, 1)) * hard, 0, 1)
    return generator.binomial(8, rates).astype(float)


def smallest_p(generator: np.random.Generator, seeds: int, noise: float, arms: int, effect: float = 0.0) -> float:
    """The verdicts' smallest corrected p of a sweep; with an effect the first arm is that much worse."""
    words = np.full(100, 8.0)
    baseline = arm(generator, seeds, 0.1, noise)
    others = [arm(generator, seeds, 0.1 + effect * (number == 0), noise) for number in range(arms)]
    ps = [error_difference(other, baseline, words, SPEAKERS).p for other in others]
    assert all(p is not None for p in ps)
    return min(holm([p for p in ps if p is not None]))


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03])
@pytest.mark.parametrize(("seeds", "arms"), [(2, 1), (3, 1), (3, 2), (5, 2)])
def test_identical_arms_are_called_different_in_at_most_5_percent(seeds: int, arms: int, noise: float) -> None:
    """The share of 500 sweeps of identical arms that raise an alarm: 5 %, and a standard error (0.01)."""
    generator = np.random.default_rng(seeds * 100 + arms)
    alarms = sum(smallest_p(generator, seeds, noise, arms) <= 0.05 for _ in range(500))
    assert alarms / 500 <= 0.06


def test_twenty_sweeps_of_identical_arms_raise_at_most_one_alarm() -> None:
    generator = np.random.default_rng(0)
    assert sum(smallest_p(generator, 3, 0.01, 1) <= 0.05 for _ in range(20)) <= 1


def test_the_matched_pairs_of_a_single_seed_would_raise_many_alarms() -> None:
    """Why the verdict does not rest on them: the utterances of a seed hold no noise of seeds."""
    generator = np.random.default_rng(0)
    ps = [
        matched_pairs((arm(generator, 1, 0.1, 0.03) - arm(generator, 1, 0.1, 0.03))[0].tolist()).p for _ in range(200)
    ]
    assert np.mean(np.array(ps) <= 0.05) > 0.2


def test_an_effect_is_measured() -> None:
    generator = np.random.default_rng(0)
    detected = sum(smallest_p(generator, 3, 0.003, 2, effect=0.1) <= 0.05 for _ in range(20))
    assert detected >= 18


def test_p_is_never_below_welchs_nor_the_interval_narrower_than_either() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        first, second = arm(generator, 3, 0.1, 0.01), arm(generator, 3, 0.12, 0.01)
        measured = error_difference(first, second, np.full(100, 8.0), SPEAKERS)
        assert measured.p is not None
        assert measured.p_seeds is not None
        assert measured.interval is not None
        assert measured.speakers is not None
        assert measured.p >= measured.p_seeds - 1e-12
        assert measured.interval.standard_error >= measured.speakers.standard_error


def test_a_single_seed_leaves_it_open() -> None:
    measured = rate_difference(np.array([0.1]), np.array([0.2, 0.21]), 100)
    assert (measured.p, measured.p_seeds, measured.interval, measured.detectable(0.05)) == (None, None, None, None)
    assert measured.difference == pytest.approx(-0.105)


def test_shared_variance_is_how_seeds_differ_by_speaker() -> None:
    words, owners = np.full(100, 8.0), SPEAKERS
    even = np.outer([1.0, 2.0, 3.0], np.ones(100))  # seeds differ, and alike on every speaker
    assert shared_variance(even, words, owners) == pytest.approx(0)
    turned = np.stack([np.tile([1.0] * 5 + [3.0] * 5, 10), np.tile([3.0] * 5 + [1.0] * 5, 10)])
    per_speaker = np.var([5.0, 15.0], ddof=1)
    assert shared_variance(turned, words, owners) == pytest.approx(20 * per_speaker / 2 / 800**2)


def test_speakers_enter_where_seeds_agree() -> None:
    """All seeds gain on one of two speakers: no noise of seeds, and still no evidence for other speakers."""
    owners, words = np.array(["a"] * 10 + ["b"] * 10), np.full(20, 8.0)
    gain = np.array([1.0] * 10 + [0.0] * 10)
    measured = error_difference(np.tile(2 + gain, (3, 1)), np.full((3, 20), 2.0), words, owners)
    assert measured.p_seeds is not None
    assert measured.p_seeds < 0.001
    assert measured.p is not None
    assert measured.p > 0.05
    assert measured.speakers == speaker_interval(gain, words, owners)
