"""What every order pads over a list of durations like LibriSpeech's 960 hours, and what the list costs."""

import tracemalloc

import numpy as np
import pytest

from asr_ablations.data.batch import BatchSize, Count, Seconds
from asr_ablations.data.batch_order import BatchOrder
from asr_ablations.tools.random_streams import generator
from tests.helpers.support import component

UTTERANCES = 281_241
QUANTILES = [
    (0, 1.3),
    (0.05, 3.3),
    (0.1, 5.2),
    (0.25, 11.0),
    (0.5, 13.75),
    (0.75, 15.2),
    (0.95, 16.6),
    (0.999, 17.5),
    (1, 24.5),
]
"""Shares of the utterances and the seconds that they stay under: our guess at a curve through LibriSpeech's known mean
of 12.3 s, 95 % up to 16.8 s, and longest of 24.5 s."""


@pytest.fixture(scope="module")
def durations() -> np.ndarray:
    shares, seconds = zip(*QUANTILES, strict=True)
    drawn = np.interp(np.linspace(0, 1, UTTERANCES), shares, seconds)
    return generator(0, "durations").permutation(drawn)


def padding(durations: np.ndarray, name: str, size: BatchSize, epoch: int = 1) -> float:
    """The share of padding over an epoch."""
    batches = component("order", name)(durations, size, epoch, generator(0, "order", epoch))
    return float(1 - durations.sum() / sum(durations[batch].max() * len(batch) for batch in batches))


def test_the_list_is_like_librispeechs(durations: np.ndarray) -> None:
    assert durations.mean() == pytest.approx(12.3, abs=0.05)
    assert (durations <= 16.8).mean() >= 0.95
    assert durations.max() == 24.5


@pytest.mark.parametrize(
    "size",
    [Count(16, 1), Count(64, 1), Count(256, 1), Seconds(800, 1), Seconds(3200, 1)],
    ids=["16", "64", "256", "800 s", "3200 s"],
)
def test_padding_of_every_order(durations: np.ndarray, size: BatchSize) -> None:
    """Under 4 % in buckets, hardly any when sorted; random batches waste a fifth to a third."""
    assert padding(durations, "bucketed", size) < 0.04
    assert padding(durations, "sortagrad", size, epoch=0) < 0.04
    assert padding(durations, "sorted", size) < 0.01
    assert padding(durations, "shuffled", size) > 0.15


def test_the_sampler_of_960_hours_stays_under_a_gigabyte(durations: np.ndarray) -> None:
    tracemalloc.start()
    order = BatchOrder(durations, Count(64, 1), component("order", "bucketed"), 0, 0, 1)
    first = next(iter(order))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(first) == 64
    assert peak < 1e9
