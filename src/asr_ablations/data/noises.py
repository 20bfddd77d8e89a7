"""Noise in waveforms: recordings in a folder, and the addition of noise at a signal-to-noise ratio."""

from pathlib import Path

import numpy as np
import soundfile

from asr_ablations import SAMPLE_RATE
from asr_ablations.data import audio
from asr_ablations.tools.content_keys import visible_files
from asr_ablations.tools.files import expanded
from asr_verdicts.errors import UsageError


def list_recordings(key: str, folder: str | Path | None, content: str) -> list[Path]:
    """Return the audio files in a folder and its subfolders, sorted. Raises UsageError with `key` if there are none.

    content: description of the recordings, such as "recordings of noise"
    """
    if folder is None or not expanded(folder, key).is_dir():
        raise UsageError(f"{key}={folder}: expected a folder with {content}")
    endings = {f".{name.lower()}" for name in soundfile.available_formats()}
    files = [file for file in visible_files(expanded(folder)) if file.suffix.lower() in endings]
    if not files:
        raise UsageError(f"{key}={folder}: contains no audio file, expected {content}")
    return files


def add_noise(samples: np.ndarray, noise: np.ndarray, decibels: float) -> np.ndarray:
    """Return int16 samples (S,) with noise (S,) added at a signal-to-noise ratio in dB; unchanged if one is silent."""
    speech = samples.astype(np.float32)
    if not samples.any() or not noise.any():
        return samples
    powers = np.square(speech).mean(), np.square(noise).mean()
    mixed = speech + noise * np.sqrt(powers[0] / powers[1] * 10 ** (-decibels / 10))
    return mixed.round().clip(-32768, 32767).astype(np.int16)


def read_noise(path: Path, position: float, length: int) -> np.ndarray:
    """Read `length` samples (S,) from a file, which is repeated if it is shorter.

    position: 0 for the earliest possible start, up to 1 for the latest.
    """
    seconds = audio.duration(path)
    needed = length / SAMPLE_RATE
    offset = position * max(0.0, seconds - needed)
    noise = audio.read(path, offset, min(needed, seconds)).astype(np.float32)
    return np.resize(noise, length) if len(noise) else np.zeros(length, np.float32)
