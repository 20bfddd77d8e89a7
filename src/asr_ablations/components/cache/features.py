"""A cache of computed features on disk, with one folder per set (Baunsgaard2020 §4.4.1 used TFRecords)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from asr_ablations import SAMPLE_RATE
from asr_ablations.data import audio
from asr_ablations.data.recording_cache import Cached, Recording, cache_key, open_cache
from asr_ablations.data.utterances import Utterance, Utterances
from asr_ablations.tools.content_keys import hash_object
from asr_ablations.tools.files import expanded
from asr_ablations.training.contracts import Features
from asr_verdicts.errors import UsageError, choices


class FeatureCache:
    """Stores the features (T, F) of all utterances as float16 in a folder under `root`.

    Training results differ slightly from those with other caches, because float16 has only about three decimal digits.
    """

    holds_features = True

    def __init__(self, *, root: str | Path, features: Features) -> None:
        if not isinstance(features, nn.Module):
            raise choices("cache.features", features, "an option of the group features, such as ${features}")
        self.root, self.features = expanded(root, "cache.root"), features

    def open(self, name: str, utterances: Sequence[Utterance], workers: int) -> Cached:
        utterances = Utterances.convert(utterances)
        lengths = torch.from_numpy(np.rint(utterances.column("duration") * SAMPLE_RATE).astype(np.int64))
        bins = self.features.size
        size = int(self.features.frames(lengths).sum()) * bins * 2
        folder = self.root / f"features-{name}-{cache_key(utterances, hash_object(self.features))}"
        return open_cache(folder, utterances, self._read, np.float16, (bins,), size)

    def _read(self, utterance: Utterance) -> Recording:
        samples = audio.read(utterance.audio, utterance.offset, utterance.duration, utterance.channel)
        with torch.inference_mode():
            waveform = torch.from_numpy(samples.astype(np.float32) / 32768)[None]
            features, lengths = self.features(waveform, torch.tensor([len(samples)]))
        values = features[0, : int(lengths)].numpy().astype(np.float16)
        if not np.isfinite(values).all():
            raise UsageError(f"cache=features: the features of utterance {utterance.id} exceed the range of float16")
        return values, len(samples)
