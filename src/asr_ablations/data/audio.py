"""The one reader of audio files: wav, flac, ogg, opus, mp3 and whatever else libsndfile supports."""

from pathlib import Path

import numpy as np
import soundfile

from asr_ablations import SAMPLE_RATE
from asr_ablations.tools.errors import UsageError

FORMATS = {
    **{".wav": ("WAV", "WAVEX", "RF64"), ".flac": ("FLAC",), ".mp3": ("MP3",)},
    **dict.fromkeys((".ogg", ".oga", ".opus"), ("OGG",)),
}
"""libsndfile's names of the formats that a file with one of these endings may have; other endings promise nothing."""
UNREADABLE = (soundfile.LibsndfileError, OSError, TypeError)  # TypeError: headerless audio, whose rate is unknown


class AudioError(UsageError):
    """A file that cannot be used; `fault` is "<reason>: <path>: <detail>"."""

    def __init__(self, path: Path, reason: str, detail: object) -> None:
        super().__init__(f"cannot read audio {path}: {reason}: {detail}")
        self.fault = f"{reason}: {path}: {detail}"


def header(path: Path) -> tuple[int, int]:
    """Return (samples per channel, Hz), from the file's header.

    Raises AudioError for a file that is missing, empty, no audio, or of another format than its ending says.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise AudioError(path, "missing file", error.strerror) from error
    if not size:
        raise AudioError(path, "zero-length file", "0 bytes")
    try:
        info = soundfile.info(str(path))
    except UNREADABLE as error:
        raise AudioError(path, "unreadable audio", error) from error
    expected = FORMATS.get(path.suffix.lower(), (info.format,))
    if info.format not in expected:
        raise AudioError(path, "wrong extension", f"it holds {info.format}, not {expected[0]}")
    if not info.frames:
        raise AudioError(path, "zero-length audio", "0 samples")
    return info.frames, info.samplerate


def duration(path: Path) -> float:
    """Return the duration in seconds, from the file's header. Raises AudioError as `header`."""
    samples, rate = header(path)
    return samples / rate


def read(path: Path, offset: float, seconds: float) -> np.ndarray:
    """Return int16 samples (S,) at 16 kHz, `seconds` s from `offset` s on; stereo is averaged, other rates resampled.

    Raises AudioError where the file cannot be read, ends too early, or holds values that are not numbers.
    """
    try:
        file = soundfile.SoundFile(str(path))
    except UNREADABLE as error:
        raise AudioError(path, "unreadable audio", error) from error
    with file:
        rate, expected = file.samplerate, round(seconds * file.samplerate)
        # libsndfile would return a float file's -1..1 as the integers -1, 0, 1
        dtype = "int16" if file.subtype.startswith("PCM_") else "float32"
        try:
            file.seek(round(offset * rate))
            samples = file.read(expected, dtype=dtype, always_2d=True)
        except UNREADABLE as error:  # though the header was sound
            raise AudioError(path, "truncated audio", error) from error
    if len(samples) < expected:
        raise AudioError(path, "truncated audio", f"{len(samples)} of {expected} samples from {offset:g} s on")
    if not np.isfinite(samples).all():
        raise AudioError(path, "not a number", f"{np.count_nonzero(~np.isfinite(samples))} samples are NaN or infinite")
    if dtype == "float32":
        samples = samples * 32768
    mono = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float32)
    return _to_int16(mono) if rate == SAMPLE_RATE else _resample(mono, rate)


def _to_int16(samples: np.ndarray) -> np.ndarray:
    """Return the samples as int16; values above full scale are clipped and do not wrap."""
    if samples.dtype == np.int16:
        return samples
    return np.clip(np.round(samples), -32768, 32767).astype(np.int16)


def _resample(samples: np.ndarray, rate: int) -> np.ndarray:
    import torch
    from torchaudio.functional import resample

    return _to_int16(resample(torch.from_numpy(samples.astype(np.float32)), rate, SAMPLE_RATE).numpy())
