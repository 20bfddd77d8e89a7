"""The one reader of audio files: wav, flac, ogg, opus, mp3 and whatever else libsndfile knows."""

from pathlib import Path

import numpy as np
import soundfile

from asr_ablations import SAMPLE_RATE
from asr_ablations.tools.errors import UsageError

FORMATS = {
    **{".wav": ("WAV", "WAVEX", "RF64"), ".flac": ("FLAC",), ".mp3": ("MP3",)},
    **dict.fromkeys((".ogg", ".oga", ".opus"), ("OGG",)),
}
"""libsndfile's names of what may be in a file of these endings; other endings promise nothing."""
UNREADABLE = (soundfile.LibsndfileError, OSError, TypeError)  # TypeError: headerless audio, whose rate nobody told


class AudioError(UsageError):
    """A file that cannot be used; `fault` is "<reason>: <what was found>"."""

    def __init__(self, path: Path, reason: str, found: object) -> None:
        super().__init__(f"cannot read audio {path}: {reason}: {found}")
        self.fault = f"{reason}: {path}: {found}"


def header(path: Path) -> tuple[int, int]:
    """(samples a channel, Hz), from the file's header. Raises AudioError for a file that is missing, empty, no audio,
    or other audio than its ending says.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise AudioError(path, "missing file", error.strerror) from error
    if not size:
        raise AudioError(path, "zero-length file", "0 bytes")
    try:
        told = soundfile.info(str(path))
    except UNREADABLE as error:
        raise AudioError(path, "unreadable audio", error) from error
    expected = FORMATS.get(path.suffix.lower(), (told.format,))
    if told.format not in expected:
        raise AudioError(path, "wrong extension", f"it holds {told.format}, not {expected[0]}")
    if not told.frames:
        raise AudioError(path, "zero-length audio", "0 samples")
    return told.frames, told.samplerate


def duration(path: Path) -> float:
    """Seconds, from the file's header. Raises AudioError as `header`."""
    samples, rate = header(path)
    return samples / rate


def read(path: Path, offset: float, seconds: float) -> np.ndarray:
    """int16 samples (S,) at 16 kHz from `offset` on; stereo is averaged, other rates are resampled.

    Raises AudioError where the file cannot be read, ends too early, or holds what is no number.
    """
    try:
        file = soundfile.SoundFile(str(path))
    except UNREADABLE as error:
        raise AudioError(path, "unreadable audio", error) from error
    with file:
        rate, wanted = file.samplerate, round(seconds * file.samplerate)
        # libsndfile would hand out a float file's -1..1 as the integers -1, 0, 1
        kind = "int16" if file.subtype.startswith("PCM_") else "float32"
        try:
            file.seek(round(offset * rate))
            samples = file.read(wanted, dtype=kind, always_2d=True)
        except UNREADABLE as error:  # the header was sound
            raise AudioError(path, "truncated audio", error) from error
    if len(samples) < wanted:
        raise AudioError(path, "truncated audio", f"{len(samples)} of {wanted} samples from {offset:g} s on")
    if not np.isfinite(samples).all():
        raise AudioError(path, "not a number", f"{np.count_nonzero(~np.isfinite(samples))} samples are NaN or infinite")
    if kind == "float32":
        samples = samples * 32768
    mono = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float32)
    return _whole(mono) if rate == SAMPLE_RATE else _resample(mono, rate)


def _whole(samples: np.ndarray) -> np.ndarray:
    """int16; what is above full scale is cut, not wrapped."""
    if samples.dtype == np.int16:
        return samples
    return np.clip(np.round(samples), -32768, 32767).astype(np.int16)


def _resample(samples: np.ndarray, rate: int) -> np.ndarray:
    import torch
    from torchaudio.functional import resample

    return _whole(resample(torch.from_numpy(samples.astype(np.float32)), rate, SAMPLE_RATE).numpy())
