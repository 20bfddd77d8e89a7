"""The contract of batch orders, and the padding that they cost."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch

from asr_ablations.data.batch import BatchOrder, BatchSize, Count, Seconds
from asr_ablations.tools.random_streams import generator
from tests.helpers.every_key import exempt, refused
from tests.helpers.support import component, group_options

Order = Callable[..., list[np.ndarray]]
NAMES = [name for name in group_options("order") if not refused(f"order={name}")]
every_variant = pytest.mark.parametrize("name", NAMES)
DURATIONS = np.random.default_rng(0).uniform(1, 30, size=1003)


def drawn(order: Order, count: int = 1003, size: int = 16, epoch: int = 1, seed: int = 0) -> list[list[int]]:
    batches = order(DURATIONS[:count], Count(size, ranks=1), epoch, generator(seed, "order", epoch))
    return [batch.tolist() for batch in batches]


@every_variant
def test_each_utterance_once_and_batches_full_but_one(name: str) -> None:
    for epoch, (count, size) in itertools.product((0, 1), ((1003, 16), (64, 16), (5, 16), (1, 1))):
        batches = drawn(component("order", name), count, size, epoch)
        assert sorted(i for batch in batches for i in batch) == list(range(count))
        assert sorted(map(len, batches))[1:] == [size] * (len(batches) - 1)
        assert len(batches) == -(-count // size)


def test_which_epochs_are_sorted_and_by_what() -> None:
    for name, epoch, expected in (
        ("sorted", 0, True), ("sorted", 3, True), ("sortagrad", 0, True), ("sortagrad", 1, False),
        ("shuffled", 0, False), ("bucketed", 0, False),
    ):  # fmt: skip
        durations = DURATIONS[[i for batch in drawn(component("order", name), epoch=epoch) for i in batch]]
        assert bool((np.diff(durations) >= 0).all()) == expected
    # Amodei et al. 2016, §3.2: increasing order of the length of the longest utterance in the minibatch
    for size in (Count(16, 1), Seconds(200.0, 1)):
        batches = component("order", "sortagrad")(DURATIONS, size, 0, generator(0, "order", 0))
        assert (np.diff([DURATIONS[batch].max() for batch in batches]) >= 0).all()


@every_variant
@pytest.mark.parametrize(("seconds", "count"), [(30.0, 1003), (200.0, 1003), (30.0, 17), (1e6, 17), (30.0, 1)])
def test_batches_of_so_many_seconds(name: str, seconds: float, count: int) -> None:
    """Each utterance once, no batch with more audio than allowed (exempt: than the others, but for an utterance), and
    equally many batches every epoch, which the schedule of the learning rate counts on.
    """
    durations, numbers = DURATIONS[:count], set()
    for epoch in range(4):
        batches = component("order", name)(durations, Seconds(seconds, 1), epoch, generator(0, "order", epoch))
        numbers.add(len(batches))
        assert sorted(np.concatenate(batches).tolist()) == list(range(count))
        if exempt(f"order={name}", "seconds including padding"):
            whole = durations.sum() / len(batches)
            assert all(abs(durations[batch].sum() - whole) <= 30 for batch in batches)
            assert len(batches) == 1 or seconds <= whole < 2 * seconds
        else:
            assert all(durations[batch].max() * len(batch) <= seconds for batch in batches)
    assert len(numbers) == 1


def test_chunks_are_those_of_a_loop() -> None:
    """Begun every length - overlap frames until the utterance is covered, the last as long as what is left."""
    for length, overlap in ((100, 50), (100, 0), (7, 6), (1, 0), (1000, 999)):
        order = component("order", "chunked", length=length, overlap=overlap)
        lengths = [0, 1, 99, 100, 101, 150, 151, 1003]
        expected = []
        for utterance, frames in enumerate(lengths):
            start = 0
            while True:
                expected.append((utterance, start, min(length, frames - start)))
                if start + length >= frames:
                    break
                start += length - overlap
        assert list(zip(*(part.tolist() for part in order.chunks(torch.tensor(lengths))), strict=True)) == expected


def sampler(name: str, rank: int, ranks: int, count: int = 1003, seconds: float | None = None) -> BatchOrder:
    size = Seconds(seconds, ranks) if seconds else Count(16, ranks)
    return BatchOrder(DURATIONS[:count], size, component("order", name), 3, rank, ranks)


@every_variant
@pytest.mark.parametrize("seconds", [None, 100.0])
@pytest.mark.parametrize(("ranks", "count"), [(1, 65), (2, 1003), (3, 16), (8, 9), (8, 8)])
def test_ranks_share_an_epoch(name: str, ranks: int, count: int, seconds: float | None) -> None:
    """As many batches on every rank, each utterance on one rank, once, and no batch empty."""
    samplers = [sampler(name, rank, ranks, count, seconds) for rank in range(ranks)]
    for epoch in range(2):
        for order in samplers:
            order.set_epoch(epoch)
        shares = [list(order) for order in samplers]
        assert {len(share) for share in shares} == {len(order) for order in samplers} == {len(shares[0])}
        assert sorted(i for share in shares for batch in share for i in batch) == list(range(count))
        assert all(batch for share in shares for batch in share)


def test_two_ranks_make_the_steps_that_one_makes_with_batches_twice_as_large() -> None:
    one = BatchOrder(DURATIONS, Count(32, 1), component("order", "bucketed"), 3, 0, 1)
    two = [sampler("bucketed", rank, 2) for rank in range(2)]
    assert [sorted(a + b) for a, b in zip(*two, strict=True)] == [sorted(batch) for batch in one]


@every_variant
def test_resuming_leaves_out_what_was_done_once(name: str) -> None:
    order = sampler(name, 0, 1)
    whole = {}
    for epoch in (2, 3):
        order.set_epoch(epoch)
        whole[epoch] = list(order)
    again = sampler(name, 0, 1)
    again.resume(2, 10)
    assert len(again) == len(whole[2])
    assert list(again) == whole[2][10:]
    assert list(again) == whole[2]
    again.resume(2, 10)
    again.set_epoch(3)
    assert list(again) == whole[3]


@pytest.mark.parametrize("name", [name for name in NAMES if not exempt(f"order={name}", "random")])
def test_set_epoch_changes_the_order_and_back(name: str) -> None:
    order = sampler(name, 1, 2)
    first = list(order)
    order.sampler.set_epoch(1)  # the way Lightning calls it
    second = list(order)
    order.sampler.set_epoch(0)
    assert second != first
    assert list(order) == first


@pytest.mark.parametrize("size", [Count(64, 1), Seconds(800, 1)], ids=["64", "800 s"])
def test_padding_of_every_order(size: BatchSize) -> None:
    """Under 4 % in buckets, hardly any when sorted; random batches waste a fifth to a third."""
    # our guess at a curve through LibriSpeech's known mean of 12.3 s, 95 % up to 16.8 s, and longest of 24.5 s
    shares, seconds = (
        (0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.95, 0.999, 1),
        (1.3, 3.3, 5.2, 11, 13.75, 15.2, 16.6, 17.5, 24.5),
    )
    durations = generator(0, "durations").permutation(np.interp(np.linspace(0, 1, 50_000), shares, seconds))
    padding = {}
    for name, epoch in (("bucketed", 1), ("sortagrad", 0), ("sorted", 1), ("shuffled", 1)):
        batches = component("order", name)(durations, size, epoch, generator(0, "order", epoch))
        padding[name] = 1 - durations.sum() / sum(durations[batch].max() * len(batch) for batch in batches)
    assert padding["bucketed"] < 0.04
    assert padding["sortagrad"] < 0.04
    assert padding["sorted"] < 0.01
    assert padding["shuffled"] > 0.15
