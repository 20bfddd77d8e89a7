"""Simulate or read the impulse response of a room, and use it to add reverberation to a waveform."""

from pathlib import Path

import numpy as np
from scipy.signal import oaconvolve

from asr_ablations import SAMPLE_RATE
from asr_ablations.data import audio

LONGEST_DECAY = 10.0
"""Maximum reverberation time in seconds, which a large cathedral reaches."""


def simulate_response(decay: float, direct_ratio: float, rng: np.random.Generator) -> np.ndarray:
    """Simulate a room impulse response (S,): the direct sound, then exponentially decaying noise (Polack 1988).

    - decay: reverberation time T60 in seconds, after which the energy has fallen by 60 dB
    - direct_ratio: ratio of the direct sound's energy to the reverberation's energy, in dB
    """
    times = np.arange(1, max(2, round(decay * SAMPLE_RATE))) / SAMPLE_RATE
    tail = rng.standard_normal(len(times)) * 10 ** (-3 * times / decay)
    tail *= np.sqrt(10 ** (-direct_ratio / 10) / np.square(tail).sum())
    return np.concatenate([[1.0], tail])


def read_response(path: Path) -> np.ndarray:
    """Read a measured impulse response (S,) at 16 kHz, starting at its largest sample, the direct sound.

    For a silent file, return [1.0], which adds no reverberation. Raises UsageError if the file cannot be read.
    """
    samples = audio.read(path, 0.0, audio.duration(path)).astype(np.float64)
    return samples[np.abs(samples).argmax() :] if samples.any() else np.ones(1)


def reverberate(samples: np.ndarray, response: np.ndarray) -> np.ndarray:
    """Add reverberation to int16 samples (S,) without changing their length or mean power."""
    if not samples.any():
        return samples
    speech = samples.astype(np.float64)
    heard = oaconvolve(speech, response)[: len(speech)]
    heard *= np.sqrt(np.square(speech).mean() / np.square(heard).mean())
    return heard.round().clip(-32768, 32767).astype(np.int16)
