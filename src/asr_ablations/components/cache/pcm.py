"""A cache of decoded audio on disk, with one folder per set: 16-bit samples at 16 kHz, 115 MB per hour."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asr_ablations import SAMPLE_RATE
from asr_ablations.data import audio
from asr_ablations.data.recording_cache import Cached, Recording, cache_key, open_cache
from asr_ablations.data.utterances import Utterance, Utterances
from asr_ablations.tools.files import expanded


class PCM:
    """Stores samples under `root`, where all runs share them. Training results are the same as with cache=none."""

    holds_features = False

    def __init__(self, *, root: str | Path) -> None:
        self.root = expanded(root, "cache.root")

    def open(self, name: str, utterances: Sequence[Utterance], workers: int) -> Cached:
        utterances = Utterances.convert(utterances)
        size = round(float(utterances.column("duration").sum()) * SAMPLE_RATE) * 2
        folder = self.root / f"pcm-{name}-{cache_key(utterances, made_by='the reader alone')}"
        return open_cache(folder, utterances, _read, np.int16, (), size)


def _read(utterance: Utterance) -> Recording:
    samples = audio.read(utterance.audio, utterance.offset, utterance.duration, utterance.channel)
    return samples, len(samples)
