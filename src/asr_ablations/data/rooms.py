"""Reverberation: simulated and measured impulse responses of rooms, and the sound of a waveform in such a room."""

from pathlib import Path

import numpy as np
from scipy.signal import oaconvolve

from asr_ablations import SAMPLE_RATE
from asr_ablations.data import audio

LONGEST_DECAY = 10.0
"""Longest reverberation time in seconds. Cathedrals have about as much."""


def simulate_response(decay: float, direct_ratio: float, rng: np.random.Generator) -> np.ndarray:
    """Return an impulse response (S,): the direct sound, then noise that decays exponentially (Polack 1988).

    - decay: reverberation time T60 in seconds, after which the energy has fallen by 60 dB
    - direct_ratio: energy of the direct sound over the energy of the reverberation, in dB
    """
    times = np.arange(1, max(2, round(decay * SAMPLE_RATE))) / SAMPLE_RATE
    tail = rng.standard_normal(len(times)) * 10 ** (-3 * times / decay)
    tail *= np.sqrt(10 ** (-direct_ratio / 10) / np.square(tail).sum())
    return np.concatenate([[1.0], tail])


def read_response(path: Path) -> np.ndarray:
    """Read a measured impulse response (S,) at 16 kHz, from its largest sample on, which is the direct sound.

    A silent file gives one sample of 1, which changes nothing. Raises UsageError if the file cannot be read.
    """
    samples = audio.read(path, 0.0, audio.duration(path)).astype(np.float64)
    return samples[np.abs(samples).argmax() :] if samples.any() else np.ones(1)


def reverberate(samples: np.ndarray, response: np.ndarray) -> np.ndarray:
    """Return int16 samples (S,) as heard in a room, without the sound after their end and as loud as before."""
    if not samples.any():
        return samples
    speech = samples.astype(np.float64)
    heard = oaconvolve(speech, response)[: len(speech)]
    heard *= np.sqrt(np.square(speech).mean() / np.square(heard).mean())
    return heard.round().clip(-32768, 32767).astype(np.int16)
