"""The utterances of each batch in an epoch, and their distribution to ranks."""

from collections.abc import Iterator
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from torch.utils.data import Sampler

from asr_ablations.data.batch import BatchSize
from asr_ablations.tools.random_streams import generator


@runtime_checkable
class Order(Protocol):
    """order: assigns utterances to batches and orders the batches."""

    def __call__(
        self, durations: np.ndarray, batch_size: BatchSize, epoch: int, generator: np.random.Generator
    ) -> list[np.ndarray]:
        """Return batches of indices into durations (N,) in seconds, for all ranks; N may be 0. Each index occurs once,
        batches do not exceed `batch_size`, and all epochs have equally many. Draw only from `generator`.
        """


class EpochBatch(list[int]):
    """Indices of a batch's utterances, and the epoch for their augmentation."""

    epoch: int


class BatchOrder(Sampler[list[int]]):
    """The batches of an epoch, which depend only on (seed, epoch).

    `batch_size` and `order` form the batch of a whole step. Its utterances are distributed to the ranks by duration, so
    that the ranks' shares are about equally long. Every utterance occurs exactly once: a batch with fewer utterances
    than ranks, of which an epoch has at most one, is merged into the previous batch.
    """

    def __init__(
        self, durations: np.ndarray, batch_size: BatchSize, order: Order, seed: int, rank: int, ranks: int
    ) -> None:
        self.durations, self.batch_size, self.order, self.seed = durations, batch_size, order, seed
        self.rank, self.ranks = rank, ranks
        self.epoch = 0
        self.sampler = self  # Lightning calls batch_sampler.sampler.set_epoch before each pass
        self._resumed = (0, 0)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def resume(self, epoch: int, done: int) -> None:
        """Continue in `epoch`: its next pass skips the first `done` batches, on which the weights were already trained.
        All other passes are complete, and the length counts all batches.
        """
        self.epoch, self._resumed = epoch, (epoch, done)

    def batches(self) -> list[EpochBatch]:
        """Return this rank's share of every batch in the epoch."""
        drawn = self.order(self.durations, self.batch_size, self.epoch, generator(self.seed, "order", self.epoch))
        return [self._take_share(batch) for batch in _merge(drawn, self.ranks)]

    def _take_share(self, batch: np.ndarray) -> EpochBatch:
        if self.ranks > 1:
            batch = batch[np.argsort(self.durations[batch], kind="stable")][self.rank :: self.ranks]
        share = EpochBatch(batch.tolist())
        share.epoch = self.epoch
        return share

    def __iter__(self) -> Iterator[list[int]]:
        # a generator, so that nothing happens before the first batch: a DataLoader with workers creates two iterators
        # and discards the first
        epoch, done = self._resumed
        if epoch != self.epoch:
            done = 0
        self._resumed = (self.epoch, 0)
        yield from self.batches()[done:]

    @cached_property
    def _count(self) -> int:
        return len(self.batches())

    def __len__(self) -> int:
        return self._count


def _merge(batches: list[np.ndarray], ranks: int) -> list[np.ndarray]:
    """Merge batches until each has at least one utterance per rank."""
    joined: list[np.ndarray] = []
    for batch in batches:
        if len(batch) < ranks and joined:
            joined[-1] = np.concatenate([joined[-1], batch])
        else:
            joined.append(batch)
    if len(joined) > 1 and len(joined[0]) < ranks:
        joined[:2] = [np.concatenate(joined[:2])]
    return joined
