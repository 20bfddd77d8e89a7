"""The one reader of audio files: wav, flac, ogg, opus, mp3 and whatever else libsndfile supports."""

import logging
import math
import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import soundfile

from asr_ablations import SAMPLE_RATE
from asr_ablations.tools.content_keys import FileState
from asr_ablations.tools.files import expanded
from asr_verdicts.errors import UsageError

FORMATS = {
    **{".wav": ("WAV", "WAVEX", "RF64", "NIST"), ".flac": ("FLAC",), ".mp3": ("MP3",)},
    **dict.fromkeys((".ogg", ".oga", ".opus"), ("OGG",)),
}
"""libsndfile's names of the formats that a file with one of these endings may have; other endings promise nothing.
NIST: SPHERE, which TIMIT and other corpora of the LDC have in files named .WAV."""
RATES = (4000, 384_000)
"""Hz, the lowest and the highest."""
MOST_CHANNELS = 64
LONGEST = 48 * 3600.0
"""Seconds of a file. A stream, as from a pipe, has a header that claims hundreds of millions of years."""
UNKNOWN = (0, 0x7FFFF000)
"""Bytes of a WAV's data: none, or from there on, mean that whoever wrote it did not know."""
BLOCK = 1 << 22
"""Values of several channels that are read at once: a small file of compressed silence can hold 64 channels."""
LARGEST_KERNEL = 1 << 22
"""Values of a resampling kernel: 44,101 Hz needs 700 million of them, and 44,100 Hz 70 thousand."""
ROUND_RATE = 50
"""Hz: a rate whose kernel is too large is taken for the nearest multiple of this, as 44,101 for 44,100 Hz."""
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
    if not RATES[0] <= info.samplerate <= RATES[1]:
        raise AudioError(path, "unreadable audio", f"{info.samplerate} Hz, expected {RATES[0]} to {RATES[1]}")
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
            _skip(file, round(offset * rate), dtype)
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


def _reason(error: Exception) -> object:
    """Return libsndfile's words for an error, without the path, which it has as bytes."""
    return getattr(error, "error_string", error)


def _skip(file: soundfile.SoundFile, frames: int, dtype: str) -> None:
    """Go to a frame; in a format that cannot seek, such as GSM 6.10, by reading what is before it."""
    if frames and file.seekable():
        file.seek(frames)
        return
    for first in range(0, frames, BLOCK):
        file.read(min(BLOCK, frames - first), dtype=dtype)


def _mono(file: soundfile.SoundFile, frames: int, dtype: str, channel: int) -> np.ndarray | None:
    """The next samples (S,), at most so many, of one channel or averaged, a block after the other; None where the
    channels cancel each other out.
    """
    if file.channels == 1:
        samples: np.ndarray = file.read(frames, dtype=dtype)
        return samples
    block, parts, power = max(1, BLOCK // file.channels), [np.zeros(0, dtype=np.float32)], 0.0
    for first in range(0, frames, block):
        part = file.read(min(block, frames - first), dtype=dtype, always_2d=True)
        if channel == AVERAGED:
            power += float(np.square(part, dtype=np.float32).mean(axis=1).sum())
            parts.append(part.mean(axis=1, dtype=np.float32))
        else:
            parts.append(part[:, channel].astype(np.float32))
    mean = np.concatenate(parts)
    return mean if channel != AVERAGED or np.square(mean).sum() >= CANCELLED * power else None


def _to_int16(samples: np.ndarray) -> np.ndarray:
    """Return the samples as int16; values above full scale are clipped and do not wrap."""
    if samples.dtype == np.int16:
        return samples
    return np.clip(np.round(samples), -32768, 32767).astype(np.int16)


def _resample(samples: np.ndarray, rate: int) -> np.ndarray:
    import torch
    from torchaudio.functional import resample

    common = math.gcd(rate, SAMPLE_RATE)
    if (rate // common) * (SAMPLE_RATE // common) > LARGEST_KERNEL:
        rate = ROUND_RATE * round(rate / ROUND_RATE)
    return _to_int16(resample(torch.from_numpy(samples.astype(np.float32)), rate, SAMPLE_RATE).numpy())


log = logging.getLogger(__name__)

TABLES = """
create table if not exists files (
    path text primary key, size integer, inode integer, changed integer, samples integer, rate integer, content text);
create table if not exists heard (
    path text, begin real, seconds real, channel integer, size integer, inode integer, changed integer, fault text,
    primary key (path, begin, seconds, channel));
create index if not exists faulty on heard (path) where fault != '';
create table if not exists decoded (digest text primary key, faults integer);
"""
PATHS_PER_QUERY = 500


class FileRow(NamedTuple):
    """A file by its header and bytes: state, samples per channel, Hz, hash of the content."""

    path: str
    size: int
    inode: int
    changed: int
    samples: int
    rate: int
    content: str

    @property
    def state(self) -> FileState:
        return FileState(self.size, self.inode, self.changed)


class DecodedRow(NamedTuple):
    """A decoded part of a file: begin and length in seconds, channel, state of the file, fault ("" for none)."""

    path: str
    begin: float
    seconds: float
    channel: int
    size: int
    inode: int
    changed: int
    fault: str

    @property
    def state(self) -> FileState:
        return FileState(self.size, self.inode, self.changed)


Row = TypeVar("Row", FileRow, DecodedRow)
TABLE_OF: dict[type, str] = {FileRow: "files", DecodedRow: "heard"}


def index_path() -> Path:
    """Return the database: $ASR_ABLATIONS_INDEX, or audio-index-2.sqlite in the user's cache folder."""
    if path := os.environ.get("ASR_ABLATIONS_INDEX"):
        return Path(path)
    cache = expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return cache / "asr-ablations" / "audio-index-2.sqlite"


def load(kind: type[Row], paths: Iterable[Path]) -> list[Row]:
    """Return all stored rows of one kind for these paths; none if the database cannot be used."""
    names = [str(path) for path in paths]
    rows: list[Row] = []
    for i in range(0, len(names), PATHS_PER_QUERY):
        part = names[i : i + PATHS_PER_QUERY]
        rows += map(kind._make, _query(f"select * from {TABLE_OF[kind]} where path in ({_marks(part)})", part))
    return rows


def load_faulty() -> list[DecodedRow]:
    """Return the stored rows of all decoded parts of files in which something was wrong."""
    return [*map(DecodedRow._make, _query("select * from heard where fault != ''", ()))]


def faults_of_decoded(digest: str) -> int | None:
    """Return how many faults there are in utterances that were all decoded, None if these were not."""
    rows = _query("select faults from decoded where digest = ?", (digest,))
    return int(str(rows[0][0])) if rows else None


def store_decoded(digest: str, faults: int) -> None:
    """Keep that utterances with this digest were all decoded, and how many have faults."""
    _query("insert or replace into decoded values (?, ?)", (digest, faults))


def store(rows: Sequence[Row]) -> None:
    """Add rows of one kind, or replace them; nothing happens if the database cannot be used."""
    if rows:
        statement = f"insert or replace into {TABLE_OF[type(rows[0])]} values ({_marks(rows[0])})"
        _execute(lambda database: database.executemany(statement, rows).fetchall())


def _query(statement: str, values: Sequence[object]) -> list[tuple[object, ...]]:
    return _execute(lambda database: database.execute(statement, values).fetchall())


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


SECONDS_FOR_INDEX = 5.0
_unusable: set[Path] = set()


def _execute(work: Callable[[sqlite3.Connection], list[tuple[object, ...]]]) -> list[tuple[object, ...]]:
    """Run `work` in one transaction. With a database that cannot be used nothing is kept, and everything works: it is
    not asked again, as a process that is stopped in the middle of a transaction would let each query wait.
    """
    try:
        if (path := index_path()) in _unusable:
            return []
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=SECONDS_FOR_INDEX)) as database, database:
            database.executescript(TABLES)
            return work(database)
    except (sqlite3.Error, OSError, UnicodeEncodeError, UsageError) as error:
        if isinstance(error, (sqlite3.Error, OSError)):
            _unusable.add(path)
        log.warning("the index of audio files cannot be used, what is known of them is not kept: %s", error)
        return []
