"""The one reader of audio files."""

from pathlib import Path

import numpy as np
import soundfile

from asr_ablations import SAMPLE_RATE
from asr_ablations.errors import UsageError


def duration(path: Path) -> float:
    """Seconds, from the file's header. Raises UsageError where it cannot be read."""
    try:
        header = soundfile.info(str(path))
    except (soundfile.LibsndfileError, OSError) as error:
        raise UsageError(f"cannot read audio {path}: {error}") from error
    return header.frames / header.samplerate


def read(path: Path, offset: float, seconds: float) -> np.ndarray:
    """int16 samples (S,) at 16 kHz from `offset` on; stereo is averaged, other rates are resampled.

    Raises UsageError where the file cannot be read.
    """
    try:
        with soundfile.SoundFile(str(path)) as file:
            rate = file.samplerate
            file.seek(round(offset * rate))
            samples = file.read(round(seconds * rate), dtype="int16", always_2d=True)
    except (soundfile.LibsndfileError, OSError) as error:
        raise UsageError(f"cannot read audio {path}: {error}") from error
    mono = samples[:, 0] if samples.shape[1] == 1 else samples.astype(np.float32).mean(axis=1).astype(np.int16)
    return mono if rate == SAMPLE_RATE else _resample(mono, rate)


def _resample(samples: np.ndarray, rate: int) -> np.ndarray:
    import torch
    from torchaudio.functional import resample

    wanted = resample(torch.from_numpy(samples.astype(np.float32)), rate, SAMPLE_RATE)
    return wanted.round().clamp(-32768, 32767).to(torch.int16).numpy()
