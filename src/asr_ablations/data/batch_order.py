"""The utterances of each batch of an epoch, and their distribution to ranks."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import numpy as np
from torch.utils.data import Sampler

from asr_ablations.data.batch import BatchSize
from asr_ablations.tools.random_streams import generator


@runtime_checkable
class Order(Protocol):
    """order: which utterances make a batch, and in which order batches come."""

    def __call__(
        self, durations: np.ndarray, batch_size: BatchSize, epoch: int, generator: np.random.Generator
    ) -> list[np.ndarray]:
        """Batches of indices into durations (N,) in seconds, for all ranks together; N may be 0. Every index once, no
        batch larger than batch_size allows, the same number of batches in every epoch, and all draws from `generator`.
        """


class EpochBatch(list[int]):
    """Indices of the utterances of a batch, and the epoch for which their augmentation is drawn."""

    epoch: int


class BatchOrder(Sampler[list[int]]):
    """The batches of an epoch, which depend only on (seed, epoch).

    `batch_size` and `order` form the batch of a whole step. Its utterances are dealt to the ranks by duration, so that
    every rank has a share of each step and all shares are about equally long. Every utterance comes exactly once: a
    batch of fewer utterances than ranks, of which an epoch has at most one, joins the previous batch.
    """

    def __init__(
        self, durations: np.ndarray, batch_size: BatchSize, order: Order, seed: int, rank: int, ranks: int
    ) -> None:
        self.durations, self.batch_size, self.order, self.seed = durations, batch_size, order, seed
        self.rank, self.ranks = rank, ranks
        self.epoch = 0
        self.sampler = self  # Lightning calls batch_sampler.sampler.set_epoch before it iterates
        self._resumed = (0, 0)
        self._count: int | None = None

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def resume(self, epoch: int, done: int) -> None:
        """Continue in `epoch`: its next iteration leaves out the first `done` batches, on which the weights are already
        trained. Every other iteration is complete, and the length counts all batches.
        """
        self.epoch, self._resumed = epoch, (epoch, done)

    def batches(self) -> list[EpochBatch]:
        """Return this rank's share of every batch of the epoch."""
        drawn = self.order(self.durations, self.batch_size, self.epoch, generator(self.seed, "order", self.epoch))
        return [self._share(batch) for batch in _joined(drawn, self.ranks)]

    def _share(self, batch: np.ndarray) -> EpochBatch:
        if self.ranks > 1:
            batch = batch[np.argsort(self.durations[batch], kind="stable")][self.rank :: self.ranks]
        share = EpochBatch(batch.tolist())
        share.epoch = self.epoch
        return share

    def __iter__(self) -> Iterator[list[int]]:
        # A generator, so that nothing happens before the first batch: a DataLoader with workers creates two iterators
        # and discards the first.
        epoch, done = self._resumed
        if epoch != self.epoch:
            done = 0
        self._resumed = (self.epoch, 0)
        yield from self.batches()[done:]

    def __len__(self) -> int:
        if self._count is None:
            self._count = len(self.batches())
        return self._count


def _joined(batches: list[np.ndarray], ranks: int) -> list[np.ndarray]:
    """Return the batches with at least one utterance per rank."""
    joined: list[np.ndarray] = []
    for batch in batches:
        if len(batch) < ranks and joined:
            joined[-1] = np.concatenate([joined[-1], batch])
        else:
            joined.append(batch)
    if len(joined) > 1 and len(joined[0]) < ranks:
        joined[:2] = [np.concatenate(joined[:2])]
    return joined
