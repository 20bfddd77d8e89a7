"""Reverberation of real rooms, from a folder of measured impulse responses."""

from pathlib import Path

import numpy as np

from asr_ablations.data.noises import list_recordings
from asr_ablations.data.rooms import read_response, reverberate


class MeasuredReverb:
    """Convolves each utterance with a random room impulse response from `folder` or its subfolders.

    Raises UsageError if `folder` contains no audio files.
    """

    changes = True

    def __init__(self, *, folder: str | Path | None) -> None:
        self.files = list_recordings("condition.folder", folder, "impulse responses of rooms")

    def __call__(self, samples: np.ndarray, id_: str, rng: np.random.Generator) -> np.ndarray:
        return reverberate(samples, read_response(self.files[int(rng.integers(len(self.files)))]))
