"""Caches of recordings: their interface, and the cache on disk, which has a file of values and an index of utterances.

The name of a cache's folder contains the key of its content. One process builds it under a temporary name, and renames
the complete cache, while other processes wait. A cache whose files do not fit together is built again.
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
"""The int16 samples (S,) or float16 features (T, F) of an utterance, and its length in samples."""


class Store(Protocol):
    """The source from which a dataset reads recordings."""

    decodes: bool
    """Whether reading needs CPU time, so that several processes read instead of one thread."""

    def read(self, utterance: Utterance) -> Recording:
        """Return one recording. Raises UsageError if the audio cannot be read."""


@runtime_checkable
class Cache(Protocol):
    """cache: keeps recordings once their audio files have been read."""

    holds_features: bool
    """Whether recordings are features, so that waveforms cannot be augmented."""

    def open(self, name: str, utterances: Sequence[Utterance], workers: int) -> Store:
        """Return the recordings of one set, with exactly the samples of the files. `workers` processes will read them;
        0 means the training process. Raises UsageError if audio cannot be read or the cache cannot be written.
        """


class Cached:
    """Recordings in a complete cache. All processes share one copy in the system's page cache.

    Raises OSError, ValueError or EOFError if the cache is missing or its files do not fit together.
    """

    decodes = False

    def __init__(self, folder: Path, utterances: Utterances, dtype: type, shape: tuple[int, ...]) -> None:
        self.path, self.shape, self.dtype = folder / "values", shape, np.dtype(dtype)
        self.width = self.dtype.itemsize * math.prod(shape)
        index: np.ndarray = np.load(folder / "index.npy")
        if index.dtype != np.int64 or index.shape != (2, len(utterances)):
            raise ValueError(f"index.npy does not belong to {len(utterances)} recordings")
        self.ends, self.samples = index
        if os.fstat(self.file.fileno()).st_size != self.width * self.ends[-1:].sum():
            raise ValueError("the file of values does not have the length that index.npy gives")
        self.rows = {id_: row for row, id_ in enumerate(utterances.strings("id"))}

    @cached_property
    def file(self) -> FileIO:
        # stays open, because the folder may be removed; not mapped into memory, because a mapped file that is truncated
        # ends its readers by SIGBUS without a message
        file = self.path.open("rb", buffering=0)
        weakref.finalize(self, file.close)
        return file

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the open file, which other processes open again."""
        return {name: value for name, value in vars(self).items() if name != "file"}

    def read(self, utterance: Utterance) -> Recording:
        row = self.rows[utterance.id]
        begin, end = int(self.ends[row - 1]) if row else 0, int(self.ends[row])
        values = np.empty((end - begin, *self.shape), self.dtype)
        buffer = values.reshape(-1).view(np.uint8).data
        if os.preadv(self.file.fileno(), [buffer], begin * self.width) < values.nbytes:
            raise UsageError(f"{self.path} was truncated while it was read; the same command builds it again")
        return values, int(self.samples[row])


def open_cache(
    folder: Path,
    utterances: Utterances,
    read: Callable[[Utterance], Recording],
    dtype: type,
    shape: tuple[int, ...],
    size: int,
) -> Cached:
    """Return the cache in `folder`, whose name contains its key. If it is missing or damaged, it is built with `read`.

    size: approximate bytes needed. Raises UsageError if the cache cannot be written or an utterance cannot be read, and
    then leaves no files.
    """
    try:
        if cached := _load(folder, utterances, dtype, shape):
            return cached
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(f"{folder.name}.lock")
        with one_at_a_time(lock, f"waiting for the process that builds {folder}"):
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
        log.warning("the cache %s is damaged and is built again: %s", folder, error)
        return None


def _build(folder: Path, utterances: Utterances, read: Callable[[Utterance], Recording], size: int) -> None:
    # remove temporary folders of killed processes, and a damaged cache
    for remainder in [*folder.parent.glob(f".{folder.name}.*"), folder]:
        shutil.rmtree(remainder, ignore_errors=True)
    free = shutil.disk_usage(folder.parent).free
    if free < size:
        raise OSError(None, f"it needs {amount(size)}, and {amount(free)} are free")
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
    """Return a hash of 16 hexadecimal digits over the utterances, their files, and the code that makes recordings.

    made_by: hash of the options and code that turn samples into recordings. Every key also covers the code that reads
    audio, and the versions of its libraries. Raises UsageError for a missing file.
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
