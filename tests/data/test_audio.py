"""The reader of audio files: samples as they are, stereo averaged, other rates resampled."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr_ablations.data import audio
from asr_ablations.tools.errors import UsageError


def written(path: Path, samples: np.ndarray, rate: int = 16000) -> Path:
    soundfile.write(path, samples, rate, subtype="PCM_16")
    return path


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-20000, 20000, size=shape).astype(np.int16)


@pytest.mark.parametrize("ending", ["flac", "wav"])
def test_samples_come_as_they_were_written(tmp_path: Path, ending: str) -> None:
    samples = noise(5000)
    path = written(tmp_path / f"a.{ending}", samples)
    assert audio.duration(path) == 5000 / 16000
    result = audio.read(path, 0.0, 5000 / 16000)
    assert result.dtype == np.int16
    np.testing.assert_array_equal(result, samples)
    np.testing.assert_array_equal(audio.read(path, 1000 / 16000, 250 / 16000), samples[1000:1250])


def test_stereo_is_averaged(tmp_path: Path) -> None:
    samples = noise(4000, 2)
    result = audio.read(written(tmp_path / "a.flac", samples), 0.0, 0.25)
    assert np.abs(result - samples.astype(np.float64).mean(axis=1)).max() <= 0.5


@pytest.mark.parametrize("rate", [8000, 22050, 44100])
def test_a_tone_at_another_rate_is_the_same_tone(tmp_path: Path, rate: int) -> None:
    def tone(at: int) -> np.ndarray:
        return (8000 * np.sin(2 * np.pi * 440 * np.arange(at) / at)).astype(np.int16)

    path = written(tmp_path / "a.wav", tone(rate), rate)
    result = audio.read(path, 0.0, audio.duration(path))
    assert len(result) == 16000
    inner = slice(200, -200)  # the resampling filter reaches past the ends
    assert np.abs(result[inner].astype(int) - tone(16000)[inner]).max() < 0.02 * 8000


def test_full_scale_does_not_wrap_when_resampled(tmp_path: Path) -> None:
    square = np.where(np.arange(8000) % 40 < 20, 32767, -32768).astype(np.int16)
    result = audio.read(written(tmp_path / "a.wav", square, 8000), 0.0, 1.0).astype(int)
    middle = result[20:40:2][3:7]
    assert np.abs(np.diff(result)).max() < 65536
    assert (middle > 25000).all() or (middle < -25000).all()


@pytest.mark.parametrize("content", [None, b"", b"RIFF no audio"])
def test_unreadable_files_are_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "broken.flac"
    if content is not None:
        path.write_bytes(content)
    for call in (lambda: audio.duration(path), lambda: audio.read(path, 0.0, 1.0)):
        with pytest.raises(UsageError, match=r"cannot read audio .*broken.flac"):
            call()
