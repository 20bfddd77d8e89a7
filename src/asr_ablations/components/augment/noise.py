"""Noise from a folder of recordings, mixed in at a drawn signal-to-noise ratio."""

from pathlib import Path

import numpy as np
import soundfile

from asr_ablations import SAMPLE_RATE
from asr_ablations.components.augment.none import NoAugmentation
from asr_ablations.data import audio
from asr_ablations.tools.content_keys import visible_files
from asr_ablations.tools.files import expanded
from asr_ablations.tools.random_streams import uniforms
from asr_verdicts.errors import UsageError


class Noise(NoAugmentation):
    """Adds noise from an audio file under `folder`, at any depth, to the waveform.

    The noise is `lowest` to `highest` dB below the utterance; a file shorter than the utterance is repeated. File,
    position and ratio are drawn from (seed, epoch, utterance id). Raises UsageError if the folder contains no audio,
    and ValueError if lowest is above highest.
    """

    changes_waveforms = True

    def __init__(self, *, folder: str | Path | None, lowest: float, highest: float) -> None:
        if lowest > highest:
            raise ValueError(f"lowest={lowest}: expected at most highest={highest}, the ratios (dB) to draw from")
        if folder is None or not expanded(folder, "augment.folder").is_dir():
            raise UsageError(f"augment.folder={folder}: expected a folder with recordings of noise")
        endings = {f".{name.lower()}" for name in soundfile.available_formats()}
        self.files = [file for file in visible_files(expanded(folder)) if file.suffix.lower() in endings]
        if not self.files:
            raise UsageError(f"augment.folder={folder}: contains no audio file, expected recordings of noise")
        self.lowest, self.highest = lowest, highest

    def waveform(self, samples: np.ndarray, id_: str, seed: int, epoch: int) -> np.ndarray:
        if not samples.any():
            return samples
        file, position, ratio = uniforms(3, seed, "noise", epoch, id_)
        decibels = self.lowest + ratio * (self.highest - self.lowest)
        noise = _read_noise(self.files[int(file * len(self.files))], position, len(samples))
        speech = samples.astype(np.float32)
        powers = np.square(speech).mean(), np.square(noise).mean()
        if not powers[1]:
            return samples
        mixed = speech + noise * np.sqrt(powers[0] / powers[1] * 10 ** (-decibels / 10))
        return mixed.round().clip(-32768, 32767).astype(np.int16)


def _read_noise(path: Path, position: float, length: int) -> np.ndarray:
    """Read `length` samples (S,) from `position` (0 ≤ position < 1) of the file, which is repeated if it is shorter."""
    seconds = audio.duration(path)
    needed = length / SAMPLE_RATE
    offset = position * max(0.0, seconds - needed)
    noise = audio.read(path, offset, min(needed, seconds)).astype(np.float32)
    return np.resize(noise, length) if len(noise) else np.zeros(length, np.float32)
