"""Intervals over speakers."""

import numpy as np
import pytest
from scipy import stats

from asr_ablations.statistics.intervals import shared_variance, speaker_interval


def corpus(generator: np.random.Generator, speakers: int, utterances: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Differences in errors, words and speakers: a speaker's mean difference is drawn around 0.3 errors in 10 words."""
    owner = np.arange(speakers).repeat(utterances)
    words = generator.integers(5, 16, len(owner)).astype(float)
    own = 0.03 + 0.02 * generator.standard_normal(speakers)[owner]
    return words * own + generator.standard_normal(len(owner)), words, owner.astype(str)


def test_standard_error_is_the_textbooks_for_equal_speakers() -> None:
    """Equal words: the rate is a mean over speakers, whose standard error is s / √n."""
    errors = np.random.default_rng(0).normal(2, 1, 30)
    interval = speaker_interval(errors, np.full(30, 10.0), np.arange(30).astype(str))
    assert interval.standard_error == pytest.approx(errors.std(ddof=1) / 10 / np.sqrt(30), rel=0.03)
    assert interval.estimate == pytest.approx(errors.mean() / 10)


@pytest.mark.parametrize("speakers", [5, 30])
def test_the_interval_is_students_for_equal_speakers(speakers: int) -> None:
    errors = np.random.default_rng(1).normal(2, 1, speakers)
    interval = speaker_interval(errors, np.full(speakers, 10.0), np.arange(speakers).astype(str), replicates=100_000)
    expected = stats.ttest_1samp(errors / 10, 0).confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=0.002)


def test_utterances_of_one_speaker_are_not_independent() -> None:
    """Each of 6 speakers said the same sentence 50 times: that adds no information."""
    once = np.array([1.0, -1, 2, 0, 1, 3])
    ten, names = np.full(6, 10.0), np.arange(6).astype(str)
    single = speaker_interval(once, ten, names)
    often = speaker_interval(once.repeat(50), ten.repeat(50), names.repeat(50))
    assert (single.low, single.high) == pytest.approx((often.low, often.high))


def test_a_single_speaker_falls_back_on_utterances() -> None:
    interval = speaker_interval(np.array([0.0, 1, 2, 1]), np.full(4, 5.0), np.array(["a"] * 4))
    assert interval.degrees == 3
    assert interval.low < interval.estimate < interval.high


@pytest.mark.parametrize("count", [0, 1])
def test_with_nothing_to_draw_from_the_interval_is_unbounded(count: int) -> None:
    interval = speaker_interval(np.ones(count), np.full(count, 4.0), np.array(["a"] * count))
    assert (interval.low, interval.high) == (-np.inf, np.inf)


def test_the_same_records_give_the_same_interval() -> None:
    arguments = corpus(np.random.default_rng(0), 10, 5)
    assert speaker_interval(*arguments) == speaker_interval(*arguments)


def test_shared_variance_is_how_seeds_differ_by_speaker() -> None:
    words, owners = np.full(100, 8.0), np.arange(20).astype(str).repeat(5)
    even = np.outer([1.0, 2.0, 3.0], np.ones(100))  # seeds differ, and alike on every speaker
    assert shared_variance(even, words, owners) == pytest.approx(0)
    turned = np.stack([np.tile([1.0] * 5 + [3.0] * 5, 10), np.tile([3.0] * 5 + [1.0] * 5, 10)])
    per_speaker = np.var([5.0, 15.0], ddof=1)
    assert shared_variance(turned, words, owners) == pytest.approx(20 * per_speaker / 2 / 800**2)
