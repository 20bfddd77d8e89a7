"""Noise from a folder of recordings, added at a random signal-to-noise ratio."""

from pathlib import Path

import numpy as np

from asr_ablations.components.augment.none import NoAugmentation
from asr_ablations.data.noises import add_noise, list_recordings, read_noise
from asr_ablations.tools.random_streams import uniforms


class Noise(NoAugmentation):
    """Adds noise from a random audio file in `folder` or its subfolders to each waveform.

    The signal-to-noise ratio is between `lowest` and `highest` dB. A noise file that is shorter than the utterance is
    repeated. The random choices depend only on seed, epoch and utterance id. Raises UsageError if `folder` contains no
    audio, and ValueError if `lowest` is above `highest`.
    """

    changes_waveforms = True

    def __init__(self, *, folder: str | Path | None, lowest: float, highest: float) -> None:
        if lowest > highest:
            raise ValueError(f"lowest={lowest}: expected at most highest={highest}, the upper limit of the ratio in dB")
        self.files = list_recordings("augment.folder", folder, "recordings of noise")
        self.lowest, self.highest = lowest, highest

    def waveform(self, samples: np.ndarray, id_: str, seed: int, epoch: int) -> np.ndarray:
        if not samples.any():
            return samples
        file, position, ratio = uniforms(3, seed, "noise", epoch, id_)
        decibels = self.lowest + ratio * (self.highest - self.lowest)
        noise = read_noise(self.files[int(file * len(self.files))], position, len(samples))
        return add_noise(samples, noise, decibels)
