"""Reverberation of real rooms, from a folder of measured impulse responses."""

from pathlib import Path

import numpy as np

from asr_ablations.components.augment.none import NoAugmentation
from asr_ablations.data.noises import list_recordings
from asr_ablations.data.rooms import read_response, reverberate
from asr_ablations.tools.checks import number
from asr_ablations.tools.random_streams import uniforms


class MeasuredReverb(NoAugmentation):
    """Convolves a random share of the waveforms with room impulse responses from `folder` and its subfolders.

    The random choices depend only on seed, epoch and utterance id. Raises UsageError if `folder` contains no audio.
    """

    changes_waveforms = True

    def __init__(self, *, folder: str | Path | None, share: float) -> None:
        self.share = number("augment.share", share, least=0, most=1)
        self.files = list_recordings("augment.folder", folder, "impulse responses of rooms")

    def waveform(self, samples: np.ndarray, id_: str, seed: int, epoch: int) -> np.ndarray:
        chosen, file = uniforms(2, seed, "measured_reverb", epoch, id_)
        if chosen >= self.share:
            return samples
        return reverberate(samples, read_response(self.files[int(file * len(self.files))]))
