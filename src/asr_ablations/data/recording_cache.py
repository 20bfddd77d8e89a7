"""The source that a dataset reads from, and a cache on disk: values of all utterances in one file, index, checksums.

A cache is a folder whose name contains the key of its content. One process builds it under a temporary name and renames
it when it is complete; the others wait and then use it. Checksums over whole files (36 s for 960 hours of PCM in the
page cache, minutes from a disk) are verified once for each state of the files: inode, size, and the times of the last
write and of the last change of the inode, which moves with every write and cannot be set back. A damaged cache is built
again. What a disk loses by itself, without a write, is not noticed.
"""

import hashlib
import itertools
import json
import logging
import math
import os
import shutil
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.utterances import Utterance, Utterances
from asr_ablations.tools.content_keys import content_key, hash_file, hash_source, library_versions
from asr_ablations.tools.files import amount, read_json
from asr_ablations.tools.machine import cores, one_at_a_time
from asr_verdicts.errors import UsageError
from asr_verdicts.files import write_json
from asr_verdicts.terminal import bar

log = logging.getLogger(__name__)

Recording = tuple[np.ndarray, int]
"""Values of one utterance, int16 samples (S,) or float16 features (T, F), and its length in samples."""
FILES = ("values", "index.npy")
VERIFIED = "verified.json"
"""The checksums that were right, and the states of the files then."""
CHUNK = 1 << 24
"""Bytes read at a time for the checksum."""


class Store(Protocol):
    """The source of a dataset's recordings."""

    decodes: bool
    """True if reading takes a processor: then processes read side by side, else a thread suffices."""

    def read(self, utterance: Utterance) -> Recording:
        """Return one recording. Raises UsageError if the audio cannot be read."""


@runtime_checkable
class JoiningStore(Store, Protocol):
    """A store that lays the recordings of a batch one behind the other, where they would be copied to otherwise."""

    def read_joined(self, utterances: Sequence[Utterance]) -> tuple[np.ndarray, list[Recording]]:
        """Return the values of all recordings in one array, and the recordings, whose values are parts of it. Raises
        UsageError as `read` does, with the utterance's id.
        """


@runtime_checkable
class Cache(Protocol):
    """cache: where recordings are kept between two readings of an audio file."""

    holds_features: bool
    """True if recordings are features: not together with an augmentation of waveforms."""

    def open(self, name: str, utterances: Sequence[Utterance], workers: int) -> Store:
        """Recordings of one set, for `workers` reading processes (0: the training process alone), which share it.
        Without features, the very samples of the audio file. Raises UsageError where audio cannot be read or a cache
        not written.
        """


class Cached:
    """Recordings in a complete cache, of which all processes share one copy in the page cache. The file is not mapped:
    one that is cut meanwhile would end them by SIGBUS, without a word.
    """

    decodes = False

    def __init__(self, folder: Path, utterances: Utterances, dtype: type, shape: tuple[int, ...]) -> None:
        self.path, self.shape = folder / "values", shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.ends, self.samples = _index(folder, len(utterances))
        self.rows = {id_: row for row, id_ in enumerate(utterances.strings("id"))}
        self._open()

    def read(self, utterance: Utterance) -> Recording:
        return self.read_joined([utterance])[1][0]

    def read_joined(self, utterances: Sequence[Utterance]) -> tuple[np.ndarray, list[Recording]]:
        rows = np.array([self.rows[u.id] for u in utterances], dtype=np.int64)
        begins, ends = np.where(rows > 0, self.ends[rows - 1], 0), self.ends[rows]
        places = np.cumsum([0, *(ends - begins)]).tolist()  # in the array
        joined = np.empty((places[-1], *self.shape), self.dtype)
        width = self.dtype.itemsize * math.prod(self.shape)
        into = joined.reshape(-1).view(np.uint8).data
        for utterance, begin, first, last in zip(utterances, begins.tolist(), places, places[1:], strict=False):
            part = into[first * width : last * width]
            if os.preadv(self.file.fileno(), [part], begin * width) < len(part):
                raise UsageError(
                    f"utterance {utterance.id}: the cache {self.path} was cut while it is read: the same command "
                    "builds it again"
                )
        values = [joined[first:last] for first, last in itertools.pairwise(places)]
        return joined, [*zip(values, self.samples[rows].tolist(), strict=True)]

    def _open(self) -> None:
        self.file = self.path.open("rb", buffering=0)  # kept open: the folder can be removed meanwhile
        weakref.finalize(self, self.file.close)

    def __getstate__(self) -> dict[str, Any]:
        """For a worker that is spawned, and opens the file itself."""
        return {name: value for name, value in vars(self).items() if name != "file"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open()


def _index(folder: Path, count: int) -> np.ndarray:
    """The end and the samples of each recording (2, N). Raises UsageError for a file of another content: in a shared
    folder its checksums are whatever its writer made them.
    """
    try:
        index = np.load(folder / "index.npy")
        if not isinstance(index, np.ndarray) or index.dtype != np.int64 or index.shape != (2, count):
            raise ValueError("its index has another form")
    except ValueError as error:
        raise UsageError(f"{folder}: no cache of {count} recordings ({error}); remove it to build it again") from error
    return index


class CacheFolder:
    """The cache of one split under `root`; `name` describes its content for people and contains the cache key."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.folder = root, root / name

    def build(self, utterances: Sequence[Utterance], read: Callable[[Utterance], Recording], size: int) -> None:
        """Build the cache unless it is complete. read: returns one recording; size: approximate bytes needed.

        Raises UsageError if the cache cannot be written or an utterance cannot be read; nothing incomplete is left.
        """
        if self._is_complete():
            return
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with one_at_a_time(
                self.root / f"{self.folder.name}.lock", f"waiting for the process that builds {self.folder}"
            ):
                if not self._is_complete():
                    self._build(utterances, read, size)
        except OSError as error:
            raise UsageError(
                f"cannot write the cache {self.folder}: {error.strerror or error}; set cache.root to a folder with "
                f"{amount(size)} free, or cache=none"
            ) from error

    def _is_complete(self) -> bool:
        """Return whether the cache exists and its checksums are right, now or since its files got their states."""
        try:
            recorded = read_json(self.folder / "about.json")
            states = _states(self.folder)
            if _verified(self.folder) == {"checksums": recorded, "states": states}:
                return True
            intact = recorded == _checksums(self.folder)
            if intact:
                _record_verified(self.folder, recorded, states)
        except FileNotFoundError:
            return False
        except (OSError, ValueError):
            intact = False
        if not intact:
            log.warning("the cache %s is damaged and is built again", self.folder)
        return intact

    def _build(self, utterances: Sequence[Utterance], read: Callable[[Utterance], Recording], size: int) -> None:
        # temporary folders of a process that was killed, and a damaged cache
        for remainder in [*self.root.glob(f".{self.folder.name}.*"), self.folder]:
            shutil.rmtree(remainder, ignore_errors=True)
        free = shutil.disk_usage(self.root).free
        if free < size:
            raise OSError(None, f"it needs {amount(size)}, and {amount(free)} are free")
        temporary = self.root / f".{self.folder.name}.{os.getpid()}"
        temporary.mkdir()
        try:
            with bar(f"caching {self.folder.name}", len(utterances)) as advance:
                _write(temporary, _in_order(read, utterances), advance)
            temporary.rename(self.folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def cache_key(utterances: Sequence[Utterance], made_by: str) -> str:
    """Return 16 hexadecimal digits over the utterances, the contents of their files, and what makes the recordings.

    made_by: a hash of the options and the code that turn samples into what is kept. The code that reads samples, and
    the versions of the libraries that it uses, are part of every key. Raises UsageError for a file that is missing.
    """
    columns = Utterances.of(utterances)
    digest = hashlib.sha256()
    strings = [columns.strings(name) for name in ("id", "audio", "content")]
    numbers = [columns.column(name).tolist() for name in ("offset", "duration", "channel")]
    for id_, audio, content, *place in zip(*strings, *numbers, strict=True):
        try:
            digest.update(repr((id_, content or hash_file(Path(audio)), *place)).encode())
        except OSError as error:
            raise UsageError(f"utterance {id_}: cannot read audio {audio}: {error}") from error
    reader = {"code": hash_source("asr_ablations.data.audio", within="asr_ablations.data"), "rate": SAMPLE_RATE}
    return content_key(utterances=digest.hexdigest(), made_by=made_by, reader=reader, versions=library_versions())


def _write(folder: Path, recordings: Iterable[Recording], advance: Callable[[float], None]) -> None:
    ends, samples = [0], []
    with (folder / "values").open("wb") as file:
        for values, length in recordings:
            file.write(np.ascontiguousarray(values).data)
            ends.append(ends[-1] + len(values))
            samples.append(length)
            advance(1)
        file.flush()
        os.fsync(file.fileno())
    np.save(folder / "index.npy", np.array([ends[1:], samples], dtype=np.int64))
    states, checksums = _states(folder), _checksums(folder)
    (folder / "about.json").write_text(json.dumps(checksums))
    _record_verified(folder, checksums, states)


def _states(folder: Path) -> dict[str, list[int]]:
    """Return what changes with every write to a file, though its size and time be set back."""
    states = {name: (folder / name).stat() for name in FILES}
    return {name: [s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns] for name, s in states.items()}


def _verified(folder: Path) -> object:
    try:
        return read_json(folder / VERIFIED)
    except (OSError, ValueError):
        return None


def _record_verified(folder: Path, checksums: object, states: dict[str, list[int]]) -> None:
    """Record that the checksums were right of files in these states, if they still have them."""
    if states == _states(folder):
        with suppress(OSError):  # of somebody else's cache, every run verifies the whole
            write_json(folder / VERIFIED, {"checksums": checksums, "states": states})


def _checksums(folder: Path) -> dict[str, list[int]]:
    return {name: _checksum(folder / name) for name in FILES}


def _checksum(path: Path) -> list[int]:
    """Return the bytes and the CRC-32 of a file."""
    size = checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            size += len(chunk)
            checksum = zlib.crc32(chunk, checksum)
    return [size, checksum]


def _in_order(read: Callable[[Utterance], Recording], utterances: Sequence[Utterance]) -> Iterator[Recording]:
    """Yield the recordings in the order of the utterances, read by one thread per core, a few in advance. Threads
    suffice: libsndfile and torch release the interpreter's lock while they work.
    """
    threads = cores()
    waiting: deque[Future[Recording]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for utterance in utterances:
                if len(waiting) >= 8 * threads:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(read, utterance))
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
