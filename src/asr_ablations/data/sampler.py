"""Which utterances make the batches of an epoch, and which rank gets which."""

from collections.abc import Callable, Iterator

import numpy as np
from torch.utils.data import Sampler

from asr_ablations.seeds import generator

Order = Callable[[np.ndarray, int, int, np.random.Generator], list[np.ndarray]]


class BatchOrder(Sampler[list[int]]):
    """The batches of an epoch, which depend on (seed, epoch) only; rank r of n takes every n-th.

    Every rank gets the same number of batches: those that do not divide are filled from the epoch's first.
    """

    def __init__(self, durations: np.ndarray, batch_size: int, order: Order, seed: int, rank: int, ranks: int) -> None:
        self.durations, self.batch_size, self.order, self.seed = durations, batch_size, order, seed
        self.rank, self.ranks = rank, ranks
        self.epoch = 0
        self.sampler = self  # Lightning calls batch_sampler.sampler.set_epoch before it asks for the batches
        self._resumed = (0, 0)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def resume(self, epoch: int, done: int) -> None:
        """Stand at `epoch`, whose next iteration leaves out the `done` batches that the weights have seen. Every
        other iteration is whole, and so is the length.
        """
        self.epoch, self._resumed = epoch, (epoch, done)

    def batches(self) -> list[list[int]]:
        drawn = self.order(self.durations, self.batch_size, self.epoch, generator(self.seed, "order", self.epoch))
        turns = range(self.rank, -(-len(drawn) // self.ranks) * self.ranks, self.ranks)
        return [drawn[i % len(drawn)].tolist() for i in turns]

    def __iter__(self) -> Iterator[list[int]]:
        # A generator, so that it begins with the first batch: a DataLoader with workers makes two iterators and throws
        # the first away.
        epoch, done = self._resumed
        if epoch != self.epoch:
            done = 0
        self._resumed = (self.epoch, 0)
        yield from self.batches()[done:]

    def __len__(self) -> int:
        whole = -(-len(self.durations) // self.batch_size)
        return -(-whole // self.ranks)
