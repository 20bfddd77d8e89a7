"""Cutting of long recordings at pauses."""

from itertools import pairwise

import numpy as np

from asr_ablations import SAMPLE_RATE

HOP = SAMPLE_RATE // 100
PAUSE = 0.3
"""Seconds over which energies are averaged: the 0.1 s of silence in a stop consonant do not count as a pause."""


def cut(samples: np.ndarray, longest: float) -> list[tuple[int, int]]:
    """Cut int16 audio (S,) at 16 kHz into pieces of at most `longest` seconds, as (first, end) in samples. Every sample
    is in exactly one piece.

    A piece ends in the middle of the quietest 0.3 s of its second half (by the mean energy in dB, so that a click in a
    pause counts little), or at the end of the recording. Without a pause, a word may be cut.
    """
    limit = round(longest * SAMPLE_RATE)
    borders, loudness = [0], None
    while len(samples) - borders[-1] > limit:
        if loudness is None:
            loudness = _loudness(samples)
        first = borders[-1]
        frames = loudness[(first + limit // 2) // HOP : (first + limit) // HOP]
        quietest = _middle_of_lowest(frames) if len(frames) else 0
        border = (first + limit // 2) // HOP * HOP + quietest * HOP
        borders.append(min(max(border, first + 1), first + limit))
    borders.append(len(samples))
    return [(first, end) for first, end in pairwise(borders) if end > first]


def _loudness(samples: np.ndarray) -> np.ndarray:
    """Return the level in dB of each 10 ms, averaged over the 0.3 s around it: (S // 160,), at least one value."""
    count = max(1, len(samples) // HOP)
    decibels = np.empty(count, dtype=np.float32)
    for i in range(0, count, 6000):  # a minute at a time: an hour in float64 would be half a gigabyte
        part = samples[i * HOP : min(i + 6000, count) * HOP].astype(np.float64).reshape(-1, HOP)
        decibels[i : i + len(part)] = 10 * np.log10(np.square(part).mean(axis=1) + 1)
    width = round(PAUSE * SAMPLE_RATE / HOP)
    padded = np.pad(decibels, (width // 2, width - 1 - width // 2), mode="edge")
    averaged: np.ndarray = np.convolve(padded, np.full(width, 1 / width), mode="valid")
    return averaged


def _middle_of_lowest(values: np.ndarray) -> int:
    """Return the index of the lowest value, or the middle index of several equal, adjacent lowest values."""
    first = int(values.argmin())
    higher = np.flatnonzero(values[first:] > values[first] + 1e-3)
    return first + (int(higher[0]) if len(higher) else len(values) - first) // 2
