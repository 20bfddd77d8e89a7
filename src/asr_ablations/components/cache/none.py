"""No cache on disk: audio files are decoded when they are read, and what fits is remembered."""

from collections.abc import Sequence

import numpy as np

from asr_ablations.data import audio
from asr_ablations.data.store import Recording
from asr_ablations.data.utterance import Utterance


class NoCache:
    """Reads audio files; each reading process remembers its share of `gigabytes` of samples after the first read."""

    holds_features = False

    def __init__(self, *, gigabytes: float) -> None:
        self.gigabytes = gigabytes

    def open(self, name: str, utterances: Sequence[Utterance], workers: int) -> "Remembering":
        return Remembering(int(self.gigabytes * 1e9 / max(1, workers)))


class Remembering:
    """Reads audio files and keeps up to `limit` bytes of samples in memory."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.kept: dict[Utterance, np.ndarray] = {}
        self.bytes = 0

    def read(self, utterance: Utterance) -> Recording:
        samples = self.kept.get(utterance)
        if samples is None:
            samples = audio.read(utterance.audio, utterance.offset, utterance.duration)
            if self.bytes + samples.nbytes <= self.limit:
                self.kept[utterance] = samples
                self.bytes += samples.nbytes
        return samples, len(samples)
