"""The interface of recording caches, and a cache on disk that stores all recordings in one file with an index.

The name of the cache folder contains a hash of everything that determines the recordings. One process builds the cache
under a temporary name and renames it when it is complete, while other processes wait. A damaged cache is rebuilt.
"""

import hashlib
import logging
import math
import os
import shutil
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from asr_ablations import SAMPLE_RATE
from asr_ablations.data import audio
from asr_ablations.data.utterances import Utterance, Utterances
from asr_ablations.tools.content_keys import content_key, hash_file, library_versions
from asr_ablations.tools.files import amount
from asr_ablations.tools.machine import one_at_a_time
from asr_verdicts.errors import UsageError

log = logging.getLogger(__name__)

Recording = tuple[np.ndarray, int]
"""The int16 samples (S,) or float16 features (T, F) of an utterance, and the utterance's length in samples."""


class Store(Protocol):
    """Reads the recordings of a data set from a cache or from audio files."""

    decodes: bool
    """Whether reading takes much CPU time. If it does, several processes read recordings; if not, one thread does."""

    def read(self, utterance: Utterance) -> Recording:
        """Read the recording of an utterance. Raises UsageError if the audio cannot be read."""


@runtime_checkable
class Cache(Protocol):
    """cache: stores recordings after their audio files have been read."""

    holds_features: bool
    """Whether recordings are features instead of waveforms. If they are, waveforms cannot be augmented."""

    def open(self, name: str, utterances: Sequence[Utterance], workers: int) -> Store:
        """Open a set's recordings for reading, after caching them if necessary.

        workers: number of processes that will read them; 0 if the training process reads them itself. Raises UsageError
        if audio cannot be read or the cache cannot be written.
        """


class Cached:
    """Reads recordings from a complete cache on disk. All processes share one copy in the system's page cache.

    Raises OSError, ValueError or EOFError if the cache is missing or damaged.
    """

    decodes = False

    def __init__(self, folder: Path, utterances: Utterances, dtype: type, shape: tuple[int, ...]) -> None:
        self.path, self.shape, self.dtype = folder / "values", shape, np.dtype(dtype)
        self.width = self.dtype.itemsize * math.prod(shape)
        index: np.ndarray = np.load(folder / "index.npy")
        if index.dtype != np.int64 or index.shape != (2, len(utterances)):
            raise ValueError(f"index.npy does not have the shape of an index of {len(utterances)} recordings")
        self.ends, self.samples = index
        if os.fstat(self.file.fileno()).st_size != self.width * self.ends[-1:].sum():
            raise ValueError("the size of the file `values` does not match index.npy")
        self.rows = {id_: row for row, id_ in enumerate(utterances.strings("id"))}

    @cached_property
    def file(self) -> FileIO:
        # The file stays open, because another process may remove its folder. It is not memory-mapped, because
        # truncating a mapped file kills its readers with SIGBUS and without a message.
        file = self.path.open("rb", buffering=0)
        weakref.finalize(self, file.close)
        return file

    def __getstate__(self) -> dict[str, Any]:
        """Omit the open file when pickling, because every process opens the file itself."""
        return {name: value for name, value in vars(self).items() if name != "file"}

    def read(self, utterance: Utterance) -> Recording:
        row = self.rows[utterance.id]
        begin, end = int(self.ends[row - 1]) if row else 0, int(self.ends[row])
        values = np.empty((end - begin, *self.shape), self.dtype)
        buffer = values.reshape(-1).view(np.uint8).data
        if os.preadv(self.file.fileno(), [buffer], begin * self.width) < values.nbytes:
            raise UsageError(f"{self.path} was truncated while it was being read; repeat the command to rebuild it")
        return values, int(self.samples[row])


def open_cache(
    folder: Path,
    utterances: Utterances,
    read: Callable[[Utterance], Recording],
    dtype: type,
    shape: tuple[int, ...],
    size: int,
) -> Cached:
    """Open the cache in `folder`. If it is missing or damaged, first build it by calling `read` for every utterance.

    size: approximate size of the cache in bytes. Raises UsageError if the cache cannot be written or an utterance
    cannot be read, and deletes the incomplete cache.
    """
    try:
        if cached := _load(folder, utterances, dtype, shape):
            return cached
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(f"{folder.name}.lock")
        with one_at_a_time(lock, f"waiting for the process that is building {folder}"):
            if not _load(folder, utterances, dtype, shape):
                _build(folder, utterances, read, size)
        return Cached(folder, utterances, dtype, shape)
    except OSError as error:
        raise UsageError(
            f"cannot write the cache {folder}: {error.strerror or error}; set cache.root to a folder with "
            f"{amount(size)} free, or cache=none"
        ) from error


def _load(folder: Path, utterances: Utterances, dtype: type, shape: tuple[int, ...]) -> Cached | None:
    try:
        return Cached(folder, utterances, dtype, shape) if folder.exists() else None
    except (OSError, ValueError, EOFError) as error:
        log.warning("the cache %s is damaged and is being rebuilt: %s", folder, error)
        return None


def _build(folder: Path, utterances: Utterances, read: Callable[[Utterance], Recording], size: int) -> None:
    # delete temporary folders that killed processes left, and a damaged cache
    for remainder in [*folder.parent.glob(f".{folder.name}.*"), folder]:
        shutil.rmtree(remainder, ignore_errors=True)
    free = shutil.disk_usage(folder.parent).free
    if free < size:
        raise OSError(None, f"it needs {amount(size)}, but only {amount(free)} is free")
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    temporary.mkdir()
    lengths = []
    try:
        with (temporary / "values").open("wb") as file:
            for chunk in audio.in_threads(read, utterances, f"caching {folder.name}", chunk=4):
                for values, samples in chunk:
                    file.write(np.ascontiguousarray(values).data)
                    lengths.append((len(values), samples))
            file.flush()
            os.fsync(file.fileno())
        frames, samples_of = np.array(lengths, dtype=np.int64).reshape(-1, 2).T
        np.save(temporary / "index.npy", np.stack([frames.cumsum(), samples_of]))
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def cache_key(utterances: Sequence[Utterance], made_by: str) -> str:
    """Return a hash (16 hexadecimal digits) of utterances, their audio files, and the code that makes recordings.

    made_by: string that identifies the options and code that turn samples into recordings. The hash always covers the
    code that reads audio, and the versions of its libraries. Raises UsageError for a missing file.
    """
    columns = Utterances.convert(utterances)
    digest = hashlib.sha256()
    strings = [columns.strings(name) for name in ("id", "audio", "content")]
    numbers = [columns.column(name).tolist() for name in ("offset", "duration", "channel")]
    for id_, path, content, *place in zip(*strings, *numbers, strict=True):
        try:
            digest.update(repr((id_, content or hash_file(Path(path)), *place)).encode())
        except OSError as error:
            raise UsageError(f"utterance {id_}: cannot read audio {path}: {error}") from error
    reader = {"code": audio.hash_reader(), "rate": SAMPLE_RATE}
    return content_key(utterances=digest.hexdigest(), made_by=made_by, reader=reader, versions=library_versions())
