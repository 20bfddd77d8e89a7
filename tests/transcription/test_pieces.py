"""Cutting at pauses."""

import numpy as np
import pytest

from asr_ablations import SAMPLE_RATE
from asr_ablations.transcription.recogniser import cut


def speech(*seconds: float, pause: float = 0.0) -> np.ndarray:
    """Noise of these durations, quiet hiss of `pause` seconds between."""
    generator = np.random.default_rng(0)
    hiss = generator.normal(0, 10, round(pause * SAMPLE_RATE))
    parts = [part for s in seconds for part in (generator.normal(0, 3000, round(s * SAMPLE_RATE)), hiss)]
    return np.concatenate(parts[:-1]).astype(np.int16)


@pytest.mark.parametrize("length", [0, 1, 159, 16000, 32000, 32001, 100_003])
@pytest.mark.parametrize("kind", ["silence", "noise", "clicks"])
def test_pieces_cover_a_recording_exactly_and_none_is_too_long(length: int, kind: str) -> None:
    samples = {"silence": np.zeros(length), "noise": speech(7)[:length], "clicks": np.arange(length) % 4001 == 0}[kind]
    pieces = cut(samples.astype(np.int16), 2.0)
    assert [first for first, _ in pieces] == [0, *(end for _, end in pieces)][: len(pieces)]
    assert pieces[-1][1] == length if length else pieces == []
    assert all(0 < end - first <= 2 * SAMPLE_RATE for first, end in pieces)


def test_what_is_short_enough_stays_whole() -> None:
    assert cut(speech(1, 1, pause=0.5), 2.5) == [(0, round(2.5 * SAMPLE_RATE))]


def test_borders_lie_in_the_middle_of_pauses() -> None:
    """Pauses of 0.5 s at 3.0, 6.5 and 10.0 s."""
    borders = [end / SAMPLE_RATE for _, end in cut(speech(3, 3, 3, 3, pause=0.5), 4.5)][:-1]
    assert borders == pytest.approx([3.25, 6.75, 10.25], abs=0.1)


def test_a_stop_consonant_is_no_pause() -> None:
    """0.08 s of silence at 2.5 s, beside a real pause from 3.5 s on."""
    samples = np.concatenate([speech(2.5), np.zeros(1280, np.int16), speech(0.92), np.zeros(6400, np.int16), speech(2)])
    assert cut(samples, 4.2)[0][1] / SAMPLE_RATE == pytest.approx(3.7, abs=0.1)


def test_a_click_in_a_pause_does_not_hide_it() -> None:
    samples = speech(3, 3, pause=0.6)
    samples[round(3.2 * SAMPLE_RATE)] = 32767
    assert 3.0 < cut(samples, 4.5)[0][1] / SAMPLE_RATE < 3.6
