"""Recorded noise at a fixed signal-to-noise ratio."""

from pathlib import Path

import numpy as np

from asr_ablations.data.noises import add_noise, list_recordings, read_noise
from asr_ablations.tools.checks import number


class RecordedNoise:
    """Adds noise from a random position in a random audio file in `folder` or its subfolders.

    snr: signal-to-noise ratio in dB over the whole utterance. Raises UsageError if `folder` contains no audio.
    """

    changes = True

    def __init__(self, *, folder: str | Path | None, snr: float) -> None:
        self.snr = number("condition.snr", snr)
        self.files = list_recordings("condition.folder", folder, "recordings of noise")

    def __call__(self, samples: np.ndarray, id_: str, rng: np.random.Generator) -> np.ndarray:
        file = self.files[int(rng.integers(len(self.files)))]
        return add_noise(samples, read_noise(file, rng.random(), len(samples)), self.snr)
