"""The size of a batch: a number of utterances (batch.size) or an amount of audio (batch.seconds). Both are per rank."""

from typing import Protocol

import numpy as np

MULTIPLE = 8
"""Matrix units are fastest with batches of a multiple of this."""


class BatchSize(Protocol):
    """The size of the batch of one step, which all ranks share."""

    def count(self, longest: float) -> int:
        """Return the number of utterances of a batch whose longest one lasts `longest` seconds."""

    def cut(self, durations: np.ndarray) -> list[int]:
        """Return the indices at which to cut a sequence of utterances with these durations in seconds. The number of
        cuts does not depend on the order of the sequence.
        """


class Count:
    """`size` utterances for each of `ranks`."""

    def __init__(self, size: int, ranks: int) -> None:
        self.size = size * ranks

    def count(self, longest: float) -> int:
        return self.size

    def cut(self, durations: np.ndarray) -> list[int]:
        return list(range(self.size, len(durations), self.size))


class Seconds:
    """`seconds` of audio for each of `ranks`, padding included where the longest utterance is known beforehand; from
    eight utterances on, a multiple of eight.
    """

    def __init__(self, seconds: float, ranks: int) -> None:
        self.seconds, self.ranks = seconds, ranks

    def count(self, longest: float) -> int:
        fits = max(1, int(self.seconds / max(longest, 1e-3)))
        return self.ranks * (fits - fits % MULTIPLE if fits >= MULTIPLE else fits)

    def cut(self, durations: np.ndarray) -> list[int]:
        """Cut into stretches of equal audio, without padding; none is empty, because each is at least as long as an
        utterance.
        """
        ends = durations.cumsum()
        batches = max(1, int(ends[-1] / (self.seconds * self.ranks)))
        middles = ends - durations / 2
        return np.searchsorted(middles, ends[-1] * np.arange(1, batches) / batches).tolist()


def batch_size(size: int | None, seconds: float | None, ranks: int) -> BatchSize:
    """Return the rule for whichever of `size` and `seconds` is set."""
    return Count(size, ranks) if size is not None else Seconds(seconds or 0.0, ranks)
