"""How many utterances make a batch: so many (batch.size), or so much audio (batch.seconds). Both for each rank."""

from typing import Protocol

import numpy as np

FULL = 8
"""Matrix units like batches of a multiple of it."""


class BatchSize(Protocol):
    """The utterances of one step, which all ranks share."""

    def count(self, longest: float) -> int:
        """Utterances of a batch whose longest lasts `longest` seconds."""

    def cut(self, durations: np.ndarray) -> list[int]:
        """Where to cut a sequence of utterances of any duration (seconds); the same number of cuts in any sequence."""


class Count:
    """`size` utterances for each of `ranks`."""

    def __init__(self, size: int, ranks: int) -> None:
        self.size = size * ranks

    def count(self, longest: float) -> int:
        return self.size

    def cut(self, durations: np.ndarray) -> list[int]:
        return list(range(self.size, len(durations), self.size))


class Seconds:
    """`seconds` of audio for each of `ranks`, padding included where the longest utterance is known beforehand; a
    multiple of eight utterances from eight on.
    """

    def __init__(self, seconds: float, ranks: int) -> None:
        self.seconds, self.ranks = seconds, ranks

    def count(self, longest: float) -> int:
        fits = max(1, int(self.seconds / max(longest, 1e-3)))
        return self.ranks * (fits - fits % FULL if fits >= FULL else fits)

    def cut(self, durations: np.ndarray) -> list[int]:
        """Stretches of equal audio, padding left out; none is empty, since none is shorter than an utterance."""
        ends = durations.cumsum()
        batches = max(1, int(ends[-1] / (self.seconds * self.ranks)))
        middles = ends - durations / 2
        return np.searchsorted(middles, ends[-1] * np.arange(1, batches) / batches).tolist()


def batch_size(size: int | None, seconds: float | None, ranks: int) -> BatchSize:
    """The rule of which one of the two is set."""
    return Count(size, ranks) if size is not None else Seconds(seconds or 0.0, ranks)
