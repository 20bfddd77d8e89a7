"""No cache on disk. Audio files are decoded when needed, and samples are kept in memory up to a limit."""

from collections.abc import Sequence

import numpy as np

from asr_ablations.data import audio
from asr_ablations.data.recording_cache import Recording
from asr_ablations.data.utterances import Utterance
from asr_ablations.tools.checks import number


class NoCache:
    """Reads audio files when needed. All reader processes together keep up to `gigabytes` GB of samples in memory."""

    holds_features = False

    def __init__(self, *, gigabytes: float) -> None:
        self.gigabytes = number("cache.gigabytes", gigabytes, least=0)

    def open(self, name: str, utterances: Sequence[Utterance], workers: int) -> "MemoryStore":
        return MemoryStore(int(self.gigabytes * 1e9 / max(1, workers)))


class MemoryStore:
    """Reads the audio files of a set and keeps up to `limit` bytes of samples in memory."""

    decodes = True

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.samples: dict[str, np.ndarray] = {}
        self.bytes = 0

    def read(self, utterance: Utterance) -> Recording:
        samples = self.samples.get(utterance.id)
        if samples is None:
            samples = audio.read(utterance.audio, utterance.offset, utterance.duration, utterance.channel)
            if self.bytes + samples.nbytes <= self.limit:
                self.samples[utterance.id] = samples
                self.bytes += samples.nbytes
        return samples, len(samples)
