"""Read audio files in all formats that libsndfile supports, such as wav, flac, ogg, opus and mp3, also in tables."""

import hashlib
import io
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import soundfile

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.tables import file_on_disk, place_in_table, read_audio
from asr_ablations.tools.content_keys import hash_source
from asr_ablations.tools.machine import cores
from asr_verdicts.errors import UsageError
from asr_verdicts.terminal import bar

A = TypeVar("A")
B = TypeVar("B")

FORMATS = {
    **{".wav": ("WAV", "WAVEX", "RF64", "NIST"), ".flac": ("FLAC",), ".mp3": ("MP3",)},
    **dict.fromkeys((".ogg", ".oga", ".opus"), ("OGG",)),
}
"""Formats that files may have, by extension, under libsndfile's names. Files with other extensions are not checked.
NIST is the SPHERE format, which TIMIT and other LDC corpora use for .WAV files."""
RATES = range(4000, 384_001, 25)
"""Supported sampling rates in Hz. The step of 25 keeps resampling kernels small: 44,101 Hz needs 700 million values."""
MOST_CHANNELS = 64
LONGEST = 48 * 3600.0
"""Maximum duration of a file in seconds. Headers of recorded streams often claim millions of years."""
UNKNOWN = (0, 0x7FFFF000)
"""A byte count in a WAV header is trusted only between these limits. Streaming programs write 0 or a huge number."""
BLOCK = 1 << 20
"""Number of bytes to read and hash at a time."""
AVERAGED = -1
"""Channel number that means the average of all channels."""
CANCELLED = 1e-4
"""Channels cancel each other out if the power of their average is less than this share of their mean power (-40 dB)."""
CLIPPED = 0.01
"""A floating-point file is refused if at least this share of its samples exceeds ±1: its scale is then unknown."""
UNREADABLE = (soundfile.LibsndfileError, OSError, TypeError)  # soundfile raises TypeError for headerless audio


class AudioError(UsageError):
    """Raised for an unusable audio file. Its attribute `fault` is "<reason>: <path>: <detail>"."""

    def __init__(self, path: Path, reason: str, detail: object) -> None:
        super().__init__(f"cannot read audio {path}: {reason}: {detail}")
        self.fault = f"{reason}: {path}: {detail}"


def header(path: Path) -> tuple[int, int]:
    """Read the number of samples per channel and the sampling rate in Hz from a file's header.

    Raises AudioError if the file is missing, empty or unsupported, or if its format does not match its extension.
    """
    embedded = _read_embedded(path)
    try:
        status = os.stat(file_on_disk(path))
    except (OSError, ValueError) as error:  # Python raises ValueError if the path contains a NUL character
        raise AudioError(path, "missing file", getattr(error, "strerror", None) or error) from error
    if not stat.S_ISREG(status.st_mode):  # reading from a pipe might never end
        raise AudioError(path, "unreadable audio", "it is not a regular file")
    if not (size := len(embedded.getbuffer()) if embedded else status.st_size):
        raise AudioError(path, "zero-length file", "0 bytes")
    try:
        info = soundfile.info(embedded or os.fsencode(path))  # soundfile refuses a str that is not valid UTF-8
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
        raise AudioError(path, "unknown length", f"the header states none, or more than {LONGEST / 3600:g} hours")
    _refuse_cut(path, size, info.frames)
    return info.frames, info.samplerate


def _read_embedded(path: Path) -> io.BytesIO | None:
    """Return the content of an audio file in a table, or None for a file on disk. Raises AudioError if it is empty."""
    try:
        content = read_audio(place) if (place := place_in_table(path)) else b""
    except UsageError as error:
        raise AudioError(path, "unreadable audio", error) from error
    if content is None:
        raise AudioError(path, "no audio", "the row has no bytes, perhaps only the path of a file")
    return io.BytesIO(content) if place else None


def _refuse_cut(path: Path, size: int, frames: int) -> None:
    """Raise AudioError if a WAV or SPHERE file is shorter than its header says. libsndfile does not report this."""
    with _read_embedded(path) or path.open("rb") as file:
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
    """Return the duration in seconds that a file's header states. Raises AudioError like `header`."""
    samples, rate = header(path)
    return samples / rate


def read(path: Path, offset: float, seconds: float, channel: int = AVERAGED) -> np.ndarray:
    """Read `seconds` of audio, starting `offset` seconds into the file, as int16 samples (S,) at 16 kHz.

    channel: channel number, counted from 0; AVERAGED for the average of all channels

    Raises AudioError if the file is unreadable or too short, if its channels cancel each other out, or if its values
    are not finite or exceed full scale.
    """
    try:
        file = soundfile.SoundFile(_read_embedded(path) or os.fsencode(path))
    except UNREADABLE as error:
        raise AudioError(path, "unreadable audio", _read_reason(error)) from error
    with file:
        rate, expected = file.samplerate, round(seconds * file.samplerate)
        if not AVERAGED <= channel < file.channels:
            raise AudioError(path, "wrong channel", f"{channel} of {file.channels}; the first channel is 0")
        # floating-point files are not read as int16, because libsndfile would round their samples to -1, 0 or 1
        dtype = "int16" if file.subtype.startswith("PCM_") else "float32"
        try:
            if offset and file.seekable():
                file.seek(round(offset * rate))
            elif offset:  # libsndfile cannot seek in some formats, such as GSM 6.10
                file.read(round(offset * rate), dtype=dtype)
            samples = _read_mono(file, expected, dtype, channel)
        except UNREADABLE as error:  # the header was valid when the file was opened, so the audio data are damaged
            raise AudioError(path, "truncated audio", _read_reason(error)) from error
        scaled = file.subtype in ("FLOAT", "DOUBLE")
    if samples is None:
        raise AudioError(path, "channels cancel out", "their average is silent; in a manifest, `channel` selects one")
    if len(samples) < expected:
        raise AudioError(path, "truncated audio", f"{len(samples)} of {expected} samples, starting at {offset:g} s")
    if not np.isfinite(samples).all():
        raise AudioError(path, "not a number", f"{np.count_nonzero(~np.isfinite(samples))} samples are NaN or infinite")
    if scaled and (share := np.mean(np.abs(samples) > 1)) >= CLIPPED:
        peak = np.abs(samples).max()
        raise AudioError(path, "beyond full scale", f"peak {peak:.1f}, {100 * share:.1f} % of samples are beyond it")
    if dtype == "float32":
        samples = samples * 32768
    if rate != SAMPLE_RATE:
        import torch  # imported late, because it takes over a second
        from torchaudio.functional import resample

        samples = resample(torch.from_numpy(samples.astype(np.float32)), rate, SAMPLE_RATE).numpy()
    return samples if samples.dtype == np.int16 else np.clip(np.round(samples), -32768, 32767).astype(np.int16)


def hash_content(path: Path) -> str:
    """Return a hash of a file's bytes. Raises AudioError if the file cannot be read."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with _read_embedded(path) or path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
    except OSError as error:
        raise AudioError(path, "unreadable audio", error.strerror) from error
    return digest.hexdigest()


def hash_reader() -> str:
    """Return a hash of the code that reads audio, for the keys of caches that depend on it."""
    return hash_source("asr_ablations.data.audio", within="asr_ablations.data")


def _read_reason(error: Exception) -> object:
    """Return libsndfile's error message without the file path, which would appear as bytes."""
    return getattr(error, "error_string", error)


def _read_mono(file: soundfile.SoundFile, frames: int, dtype: str, channel: int) -> np.ndarray | None:
    """Read up to `frames` samples (S,) of one channel or of the channels' average; None if the channels cancel out."""
    samples: np.ndarray = file.read(frames, dtype=dtype, always_2d=True)
    if file.channels == 1:
        return samples[:, 0]
    if channel != AVERAGED:
        return samples[:, channel].astype(np.float32)
    mean = samples.mean(axis=1, dtype=np.float32)
    power = np.square(samples, dtype=np.float32).mean(axis=1).sum(dtype=np.float64)
    return mean if np.square(mean).sum() >= CANCELLED * power else None


def in_threads(work: Callable[[A], B], items: Sequence[A], title: str, chunk: int = 64) -> Iterator[list[B]]:
    """Apply `work` to all items in threads, yield lists of `chunk` results in order, and show a progress bar."""
    threads = cores()
    pool = ThreadPoolExecutor(threads)  # threads suffice: reading, hashing and decoding release the interpreter lock
    # submitting each file as a separate task could take longer than the work on the file
    parts = (items[begin : begin + chunk] for begin in range(0, len(items), chunk))
    futures = (pool.submit(lambda part: [*map(work, part)], part) for part in parts)
    try:
        with bar(title, len(items)) as advance:
            waiting = deque(islice(futures, 2 * threads))
            while waiting:
                results = waiting.popleft().result()
                waiting.extend(islice(futures, 1))
                yield results
                advance(len(results))
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, do not start the remaining work
