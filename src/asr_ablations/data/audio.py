"""Reading audio files: wav, flac, ogg, opus, mp3 and all other formats of libsndfile."""

import hashlib
import os
import re
import stat
from pathlib import Path

import numpy as np
import soundfile

from asr_ablations import SAMPLE_RATE
from asr_ablations.tools.content_keys import hash_source
from asr_verdicts.errors import UsageError

FORMATS = {
    **{".wav": ("WAV", "WAVEX", "RF64", "NIST"), ".flac": ("FLAC",), ".mp3": ("MP3",)},
    **dict.fromkeys((".ogg", ".oga", ".opus"), ("OGG",)),
}
"""libsndfile's names of the formats that each ending may contain; other endings are not checked.
NIST means SPHERE, the format of .WAV files in TIMIT and other LDC corpora."""
RATES = range(4000, 384_001, 25)
"""Sampling rates in Hz. The exact resampling kernel has 700 million values for 44,101 Hz and 70,000 for 44,100 Hz."""
MOST_CHANNELS = 64
LONGEST = 48 * 3600.0
"""Maximum seconds of a file. The header of a stream, for example from a pipe, claims millions of years."""
UNKNOWN = (0, 0x7FFFF000)
"""Byte counts in a WAV header (the first, or from the second on) that mean that the writer did not know the length."""
BLOCK = 1 << 20
"""Bytes read at a time for the hash."""
AVERAGED = -1
"""Stands for a channel number: use the mean of all channels."""
CANCELLED = 1e-4
"""Channels cancel each other out if their mean has less than this share of their power (40 dB)."""
CLIPPED = 0.01
"""If this share of samples exceeds full scale, a floating-point file is taken to use other units."""
UNREADABLE = (soundfile.LibsndfileError, OSError, TypeError)  # TypeError: headerless audio with an unknown rate


class AudioError(UsageError):
    """An unusable audio file; `fault` is "<reason>: <path>: <detail>"."""

    def __init__(self, path: Path, reason: str, detail: object) -> None:
        super().__init__(f"cannot read audio {path}: {reason}: {detail}")
        self.fault = f"{reason}: {path}: {detail}"


def header(path: Path) -> tuple[int, int]:
    """Return (samples per channel, Hz) from a file's header.

    Raises AudioError if the file is missing, empty, not audio, or does not have the format of its ending.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:  # ValueError: an impossible path, with NUL or a lone surrogate
        raise AudioError(path, "missing file", getattr(error, "strerror", None) or error) from error
    if not stat.S_ISREG(status.st_mode):  # reading from a pipe might never end
        raise AudioError(path, "unreadable audio", "it is not a regular file")
    if not status.st_size:
        raise AudioError(path, "zero-length file", "0 bytes")
    try:
        info = soundfile.info(os.fsencode(path))  # soundfile refuses text names that are not UTF-8
    except UNREADABLE as error:
        raise AudioError(path, "unreadable audio", _read_reason(error)) from error
    expected = FORMATS.get(path.suffix.lower(), (info.format,))
    if info.format not in expected:
        raise AudioError(path, "wrong extension", f"the content is {info.format}, expected {expected[0]}")
    if not info.frames:
        raise AudioError(path, "zero-length audio", "0 samples")
    if info.samplerate not in RATES:
        raise AudioError(path, "unreadable audio", f"{info.samplerate} Hz, expected 4000 to 384000 in steps of 25")
    if info.channels > MOST_CHANNELS:
        raise AudioError(path, "unreadable audio", f"{info.channels} channels, expected at most {MOST_CHANNELS}")
    if info.frames / info.samplerate > LONGEST:
        raise AudioError(path, "unknown length", f"the header gives none, or over {LONGEST / 3600:g} hours")
    _refuse_cut(path, status.st_size, info.frames)
    return info.frames, info.samplerate


def _refuse_cut(path: Path, size: int, frames: int) -> None:
    """Raise AudioError if a WAV or SPHERE file of `size` bytes is shorter than its header promises. libsndfile does not
    report this: it finds `frames` samples and takes them for the whole.
    """
    with path.open("rb") as file:
        if (form := file.read(4)) == b"NIST":
            count = re.search(rb"sample_count -i (\d+)", file.read(1020))
            if count and int(count[1]) > frames:
                raise AudioError(path, "truncated audio", f"{frames} of {int(count[1])} samples")
        if form != b"RIFF" or file.read(8)[4:] != b"WAVE":
            return
        while len(chunk := file.read(8)) == 8:
            promised, rest = int.from_bytes(chunk[4:], "little"), size - file.tell()
            if chunk[:4] == b"data":
                if UNKNOWN[0] < promised < UNKNOWN[1] and promised > rest:
                    raise AudioError(path, "truncated audio", f"{rest} of {promised} bytes")
                return
            file.seek(promised + promised % 2, os.SEEK_CUR)


def duration(path: Path) -> float:
    """Return the duration in seconds from the file's header. Raises AudioError like `header`."""
    samples, rate = header(path)
    return samples / rate


def read(path: Path, offset: float, seconds: float, channel: int = AVERAGED) -> np.ndarray:
    """Return int16 samples (S,) at 16 kHz: `seconds` s starting at `offset` s, resampled if necessary.

    channel: counted from 0; AVERAGED for the mean of all. Raises AudioError if the file is unreadable or too short, if
    its channels cancel each other out, or if its values are not finite or exceed full scale.
    """
    try:
        file = soundfile.SoundFile(os.fsencode(path))
    except UNREADABLE as error:
        raise AudioError(path, "unreadable audio", _read_reason(error)) from error
    with file:
        rate, expected = file.samplerate, round(seconds * file.samplerate)
        if not AVERAGED <= channel < file.channels:
            raise AudioError(path, "wrong channel", f"{channel} of {file.channels}; the first channel is 0")
        # libsndfile would return a float file's -1..1 as the integers -1, 0, 1
        dtype = "int16" if file.subtype.startswith("PCM_") else "float32"
        try:
            if offset and file.seekable():
                file.seek(round(offset * rate))
            elif offset:  # GSM 6.10 and others cannot seek
                file.read(round(offset * rate), dtype=dtype)
            samples = _read_mono(file, expected, dtype, channel)
        except UNREADABLE as error:  # although the header was valid
            raise AudioError(path, "truncated audio", _read_reason(error)) from error
        scaled = file.subtype in ("FLOAT", "DOUBLE")
    if samples is None:
        raise AudioError(path, "channels cancel out", "their mean is silent; a manifest's key channel selects one")
    if len(samples) < expected:
        raise AudioError(path, "truncated audio", f"{len(samples)} of {expected} samples from {offset:g} s on")
    if not np.isfinite(samples).all():
        raise AudioError(path, "not a number", f"{np.count_nonzero(~np.isfinite(samples))} samples are NaN or infinite")
    if scaled and (share := np.mean(np.abs(samples) > 1)) >= CLIPPED:
        peak = np.abs(samples).max()
        raise AudioError(path, "beyond full scale", f"peak {peak:.1f}, {100 * share:.1f} % of samples")
    if dtype == "float32":
        samples = samples * 32768
    return _convert_to_int16(samples) if rate == SAMPLE_RATE else _resample(samples, rate)


def hash_content(path: Path) -> str:
    """Return a hash of all bytes of a file. Raises AudioError if it cannot be read."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
    except OSError as error:
        raise AudioError(path, "unreadable audio", error.strerror) from error
    return digest.hexdigest()


def hash_reader() -> str:
    """Return a hash of the code that reads audio, for the keys of results that depend on it."""
    return hash_source("asr_ablations.data.audio", within="asr_ablations.data")


def _read_reason(error: Exception) -> object:
    """Return libsndfile's message without the path, which is in bytes."""
    return getattr(error, "error_string", error)


def _read_mono(file: soundfile.SoundFile, frames: int, dtype: str, channel: int) -> np.ndarray | None:
    """Return up to `frames` next samples (S,), of one channel or averaged; None if the channels cancel out."""
    samples: np.ndarray = file.read(frames, dtype=dtype, always_2d=True)
    if file.channels == 1:
        return samples[:, 0]
    if channel != AVERAGED:
        return samples[:, channel].astype(np.float32)
    mean = samples.mean(axis=1, dtype=np.float32)
    power = np.square(samples, dtype=np.float32).mean(axis=1).sum(dtype=np.float64)
    return mean if np.square(mean).sum() >= CANCELLED * power else None


def _convert_to_int16(samples: np.ndarray) -> np.ndarray:
    """Return the samples as int16. Values above full scale are clipped instead of wrapping around."""
    if samples.dtype == np.int16:
        return samples
    return np.clip(np.round(samples), -32768, 32767).astype(np.int16)


def _resample(samples: np.ndarray, rate: int) -> np.ndarray:
    import torch
    from torchaudio.functional import resample

    return _convert_to_int16(resample(torch.from_numpy(samples.astype(np.float32)), rate, SAMPLE_RATE).numpy())
