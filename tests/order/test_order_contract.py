"""Every order of utterances, and its division among ranks."""

from collections.abc import Callable

import numpy as np
import pytest

from asr_ablations.data.sampler import BatchOrder
from asr_ablations.seeds import generator
from support import component, group_options, knobs, turned

Order = Callable[..., list[np.ndarray]]
every_variant = pytest.mark.parametrize("name", group_options("order"))
DURATIONS = np.random.default_rng(0).uniform(1, 30, size=1003)


def drawn(order: Order, count: int = 1003, size: int = 16, epoch: int = 1, seed: int = 0) -> list[list[int]]:
    batches = order(DURATIONS[:count], size, epoch, generator(seed, "order", epoch))
    return [batch.tolist() for batch in batches]


@every_variant
@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize(("count", "size"), [(1003, 16), (64, 16), (5, 16), (1, 1), (7, 1)])
def test_each_utterance_once_and_batches_full_but_one(name: str, epoch: int, count: int, size: int) -> None:
    batches = drawn(component("order", name), count, size, epoch)
    assert sorted(i for batch in batches for i in batch) == list(range(count))
    assert sorted(map(len, batches))[1:] == [size] * (len(batches) - 1)
    assert len(batches) == -(-count // size)


@every_variant
@pytest.mark.parametrize("epoch", [0, 1])
def test_the_same_seed_and_epoch_give_the_same(name: str, epoch: int) -> None:
    order = component("order", name)
    found = drawn(order, epoch=epoch)
    np.random.default_rng(5).random()
    drawn(order, epoch=epoch + 1)
    assert drawn(order, epoch=epoch) == found


@pytest.mark.parametrize("name", [name for name in group_options("order") if name != "sorted"])
@pytest.mark.parametrize("change", [{"seed": 1}, {"epoch": 2}])
def test_another_seed_or_epoch_gives_another(name: str, change: dict[str, int]) -> None:
    order = component("order", name)
    assert drawn(order, **change) != drawn(order)


@pytest.mark.parametrize(("name", "key"), knobs("order"))
def test_no_dead_knobs(name: str, key: str) -> None:
    assert drawn(component("order", name)) != drawn(turned("order", name, key))


def in_sequence(batches: list[list[int]]) -> np.ndarray:
    return DURATIONS[[i for batch in batches for i in batch]]


@pytest.mark.parametrize(("name", "epoch", "expected"), [("sorted", 0, True), ("sorted", 3, True),
                                                         ("sortagrad", 0, True), ("sortagrad", 1, False),
                                                         ("shuffled", 0, False), ("bucketed", 0, False)])  # fmt: skip
def test_which_epochs_are_sorted(name: str, epoch: int, expected: bool) -> None:
    assert bool((np.diff(in_sequence(drawn(component("order", name), epoch=epoch))) >= 0).all()) == expected


def test_sortagrad_is_bucketed_after_its_first_epoch() -> None:
    assert drawn(component("order", "sortagrad"), epoch=1) == drawn(component("order", "bucketed"), epoch=1)


def padding(name: str) -> float:
    """The share of padding over an epoch."""
    batches = drawn(component("order", name))
    padded = sum(DURATIONS[batch].max() * len(batch) for batch in batches)
    return 1 - DURATIONS.sum() / padded


def test_bucketed_pads_far_less_than_shuffled_and_sorted_least() -> None:
    """Uniform durations of 1 to 30 s: the longest of 16 lies near 28 s, so shuffling pads nearly half."""
    assert padding("sorted") < padding("bucketed") < 0.25 * padding("shuffled")
    assert padding("shuffled") > 0.4


def sampler(name: str, rank: int, ranks: int, count: int = 1003, size: int = 16) -> BatchOrder:
    return BatchOrder(DURATIONS[:count], size, component("order", name), 3, rank, ranks)


@every_variant
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize(("count", "size"), [(1003, 16), (65, 16), (16, 16), (3, 16)])
def test_ranks_share_an_epoch(name: str, ranks: int, count: int, size: int) -> None:
    shares = [list(sampler(name, rank, ranks, count, size)) for rank in range(ranks)]
    whole = list(sampler(name, 0, 1, count, size))
    assert {len(share) for share in shares} == {-(-len(whole) // ranks)}
    assert [len(sampler(name, rank, ranks, count, size)) for rank in range(ranks)] == [len(s) for s in shares]
    dealt = [batch for turn in zip(*shares, strict=True) for batch in turn]
    assert dealt[: len(whole)] == whole, "disjoint and complete before the fill"
    assert all(batch in whole for batch in dealt[len(whole) :])


@pytest.mark.parametrize("name", [name for name in group_options("order") if name != "sorted"])
def test_set_epoch_changes_the_order_and_back(name: str) -> None:
    order = sampler(name, 1, 2)
    first = list(order)
    order.sampler.set_epoch(1)  # the way Lightning calls it
    second = list(order)
    order.sampler.set_epoch(0)
    assert second != first
    assert list(order) == first
