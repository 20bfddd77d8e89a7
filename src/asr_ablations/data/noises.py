"""Find and read recordings of noise, and add noise to waveforms at a given signal-to-noise ratio."""

from pathlib import Path

import numpy as np
import soundfile

from asr_ablations import SAMPLE_RATE
from asr_ablations.data import audio
from asr_ablations.tools.content_keys import visible_files
from asr_ablations.tools.files import expanded
from asr_verdicts.errors import UsageError


def list_recordings(key: str, folder: str | Path | None, content: str) -> list[Path]:
    """Return the sorted paths of all audio files in a folder and its subfolders. Raises UsageError if there are none.

    key, content: config key of the folder and description of its recordings, for the error message
    """
    if folder is None or not expanded(folder, key).is_dir():
        raise UsageError(f"{key}={folder}: expected a folder with {content}")
    endings = {f".{name.lower()}" for name in soundfile.available_formats()}
    files = [file for file in visible_files(expanded(folder)) if file.suffix.lower() in endings]
    if not files:
        raise UsageError(f"{key}={folder}: contains no audio file, expected {content}")
    return files


def add_noise(samples: np.ndarray, noise: np.ndarray, decibels: float) -> np.ndarray:
    """Add noise (S,) to int16 samples (S,) at a signal-to-noise ratio in dB, unless either of them is silent."""
    speech = samples.astype(np.float32)
    if not samples.any() or not noise.any():
        return samples
    powers = np.square(speech).mean(), np.square(noise).mean()
    mixed = speech + noise * np.sqrt(powers[0] / powers[1] * 10 ** (-decibels / 10))
    return mixed.round().clip(-32768, 32767).astype(np.int16)


def read_noise(path: Path, position: float, length: int) -> np.ndarray:
    """Read `length` samples (S,) at 16 kHz from a file, and repeat them if the file is too short.

    position: where to start reading, from 0 (start of the file) to 1 (latest start that leaves `length` samples)
    """
    seconds = audio.duration(path)
    needed = length / SAMPLE_RATE
    offset = position * max(0.0, seconds - needed)
    noise = audio.read(path, offset, min(needed, seconds)).astype(np.float32)
    return np.resize(noise, length) if len(noise) else np.zeros(length, np.float32)
