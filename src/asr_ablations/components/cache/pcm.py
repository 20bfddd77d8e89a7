"""Decoded audio in one file a split: 16-bit samples at 16 kHz, 115 MB an hour."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asr_ablations import SAMPLE_RATE
from asr_ablations.data import audio
from asr_ablations.data.store import Cached, CacheFolder, Recording, cache_key
from asr_ablations.data.utterance import Utterance


class PCM:
    """The very samples that cache=none reads, so that training is bit-equal. Under `root`, for all runs to share."""

    holds_features = False

    def __init__(self, *, root: str | Path) -> None:
        self.root = Path(root).expanduser()

    def open(self, name: str, utterances: Sequence[Utterance], workers: int) -> Cached:
        """Raises UsageError where audio cannot be read or the cache not written."""
        size = round(sum(u.duration for u in utterances) * SAMPLE_RATE) * 2
        cache = CacheFolder(self.root, f"pcm-{name}-{cache_key(utterances)}")
        cache.build(utterances, _read, size)
        return Cached(cache.folder, utterances, np.int16, ())


def _read(utterance: Utterance) -> Recording:
    samples = audio.read(utterance.audio, utterance.offset, utterance.duration)
    return samples, len(samples)
