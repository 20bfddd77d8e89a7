"""The one reader of audio files: wav, flac, ogg, opus, mp3 and whatever else libsndfile supports."""

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
"""libsndfile's names of the formats that a file with one of these endings may have; other endings promise nothing.
NIST: SPHERE, which TIMIT and other corpora of the LDC have in files named .WAV."""
RATES = range(4000, 384_001, 25)
"""Hz. The exact kernel that resamples 44,101 Hz has 700 million values, that of 44,100 Hz 70 thousand."""
MOST_CHANNELS = 64
LONGEST = 48 * 3600.0
"""Seconds of a file. A stream, as from a pipe, has a header that claims hundreds of millions of years."""
UNKNOWN = (0, 0x7FFFF000)
"""Bytes of a WAV's data: none, or from there on, mean that whoever wrote it did not know."""
BLOCK = 1 << 20
"""Bytes read at a time for the hash."""
AVERAGED = -1
"""In place of the number of a channel: the mean of all."""
CANCELLED = 1e-4
"""Power of the mean of all channels, as a share of theirs, below which they cancel each other out: 40 dB."""
CLIPPED = 0.01
"""Share of samples beyond full scale from which on a file of floating-point numbers is taken for one in other units."""
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
        status = path.stat()
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have, with a NUL or a lone surrogate
        raise AudioError(path, "missing file", getattr(error, "strerror", None) or error) from error
    if not stat.S_ISREG(status.st_mode):  # of a pipe, reading need not end
        raise AudioError(path, "unreadable audio", "no regular file")
    if not status.st_size:
        raise AudioError(path, "zero-length file", "0 bytes")
    try:
        info = soundfile.info(os.fsencode(path))  # soundfile itself refuses names that are no UTF-8
    except UNREADABLE as error:
        raise AudioError(path, "unreadable audio", _reason(error)) from error
    expected = FORMATS.get(path.suffix.lower(), (info.format,))
    if info.format not in expected:
        raise AudioError(path, "wrong extension", f"it holds {info.format}, not {expected[0]}")
    if not info.frames:
        raise AudioError(path, "zero-length audio", "0 samples")
    if info.samplerate not in RATES:
        raise AudioError(path, "unreadable audio", f"{info.samplerate} Hz, expected 4000 to 384000 in steps of 25")
    if info.channels > MOST_CHANNELS:
        raise AudioError(path, "unreadable audio", f"{info.channels} channels, expected {MOST_CHANNELS} at the most")
    if info.frames / info.samplerate > LONGEST:
        raise AudioError(path, "unknown length", f"its header gives none, or over {LONGEST / 3600:g} hours")
    _refuse_cut(path, status.st_size, info.frames)
    return info.frames, info.samplerate


def _refuse_cut(path: Path, size: int, frames: int) -> None:
    """Raises AudioError for a WAV or SPHERE file of `size` bytes, in which libsndfile sees `frames` samples, with less
    than its header promises: libsndfile takes what is there for the whole.
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
    """Return the duration in seconds, from the file's header. Raises AudioError as `header`."""
    samples, rate = header(path)
    return samples / rate


def read(path: Path, offset: float, seconds: float, channel: int = AVERAGED) -> np.ndarray:
    """Return int16 samples (S,) at 16 kHz, `seconds` s from `offset` s on; other rates are resampled.

    channel: counted from 0; by default the mean of all. Raises AudioError where the file cannot be read or ends too
    early, its channels cancel each other out, or its values are not numbers or not within full scale.
    """
    try:
        file = soundfile.SoundFile(os.fsencode(path))
    except UNREADABLE as error:
        raise AudioError(path, "unreadable audio", _reason(error)) from error
    with file:
        rate, expected = file.samplerate, round(seconds * file.samplerate)
        if not AVERAGED <= channel < file.channels:
            raise AudioError(path, "wrong channel", f"{channel} of {file.channels}, which are counted from 0")
        # libsndfile would return a float file's -1..1 as the integers -1, 0, 1
        dtype = "int16" if file.subtype.startswith("PCM_") else "float32"
        try:
            if offset and file.seekable():
                file.seek(round(offset * rate))
            elif offset:  # GSM 6.10 and others cannot seek
                file.read(round(offset * rate), dtype=dtype)
            samples = _mono(file, expected, dtype, channel)
        except UNREADABLE as error:  # though the header was sound
            raise AudioError(path, "truncated audio", _reason(error)) from error
        scaled = file.subtype in ("FLOAT", "DOUBLE")
    if samples is None:
        raise AudioError(path, "channels cancel out", "their mean is silent; a manifest's key channel chooses one")
    if len(samples) < expected:
        raise AudioError(path, "truncated audio", f"{len(samples)} of {expected} samples from {offset:g} s on")
    if not np.isfinite(samples).all():
        raise AudioError(path, "not a number", f"{np.count_nonzero(~np.isfinite(samples))} samples are NaN or infinite")
    if scaled and (share := np.mean(np.abs(samples) > 1)) >= CLIPPED:
        peak = np.abs(samples).max()
        raise AudioError(path, "beyond full scale", f"peak {peak:.1f}, {100 * share:.1f} % of samples")
    if dtype == "float32":
        samples = samples * 32768
    return _to_int16(samples) if rate == SAMPLE_RATE else _resample(samples, rate)


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
    """Return a hash of the code that reads audio: a part of the key of whatever is kept of it."""
    return hash_source("asr_ablations.data.audio", within="asr_ablations.data")


def _reason(error: Exception) -> object:
    """Return libsndfile's words for an error, without the path, which it has as bytes."""
    return getattr(error, "error_string", error)


def _mono(file: soundfile.SoundFile, frames: int, dtype: str, channel: int) -> np.ndarray | None:
    """Return the next samples (S,), at most `frames`, of one channel or averaged; None if the channels cancel out."""
    samples: np.ndarray = file.read(frames, dtype=dtype, always_2d=True)
    if file.channels == 1:
        return samples[:, 0]
    if channel != AVERAGED:
        return samples[:, channel].astype(np.float32)
    mean = samples.mean(axis=1, dtype=np.float32)
    power = np.square(samples, dtype=np.float32).mean(axis=1).sum(dtype=np.float64)
    return mean if np.square(mean).sum() >= CANCELLED * power else None


def _to_int16(samples: np.ndarray) -> np.ndarray:
    """Return the samples as int16; values above full scale are clipped and do not wrap."""
    if samples.dtype == np.int16:
        return samples
    return np.clip(np.round(samples), -32768, 32767).astype(np.int16)


def _resample(samples: np.ndarray, rate: int) -> np.ndarray:
    import torch
    from torchaudio.functional import resample

    return _to_int16(resample(torch.from_numpy(samples.astype(np.float32)), rate, SAMPLE_RATE).numpy())
