"""The interface of stores and caches of recordings, and the cache on disk: values of all utterances and their index.

A cache is a folder with the key of its content in its name. One process builds it under a temporary name and renames it
when complete, while other processes wait. A cache whose files do not fit each other is built again.
"""

import hashlib
import itertools
import logging
import math
import os
import shutil
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from asr_ablations import SAMPLE_RATE
from asr_ablations.data import audio
from asr_ablations.data.threads import in_threads
from asr_ablations.data.utterances import Utterance, Utterances
from asr_ablations.tools.content_keys import content_key, hash_file, library_versions
from asr_ablations.tools.files import amount
from asr_ablations.tools.machine import one_at_a_time
from asr_verdicts.errors import UsageError

log = logging.getLogger(__name__)

Recording = tuple[np.ndarray, int]
"""An utterance's int16 samples (S,) or float16 features (T, F), and its length in samples."""


class Store(Protocol):
    """The source of a dataset's recordings."""

    decodes: bool
    """True if reading needs CPU time; then several processes read, and otherwise one thread."""

    def read(self, utterance: Utterance) -> Recording:
        """Return one recording. Raises UsageError if the audio cannot be read."""


@runtime_checkable
class Cache(Protocol):
    """cache: keeps recordings after their audio files were read."""

    holds_features: bool
    """True if recordings are features, which excludes augmentation of waveforms."""

    def open(self, name: str, utterances: Sequence[Utterance], workers: int) -> Store:
        """Return the recordings of one set, shared by `workers` reading processes (0: only the training process).
        Samples are exactly the file's. Raises UsageError if audio cannot be read or the cache cannot be written.
        """


class Cached:
    """Recordings in a complete cache; all processes share one copy in the page cache. The file is not mapped into
    memory, because truncating a mapped file ends its readers by SIGBUS without a message.

    Raises OSError, ValueError or EOFError if the cache is missing or its files do not fit each other.
    """

    decodes = False

    def __init__(self, folder: Path, utterances: Utterances, dtype: type, shape: tuple[int, ...]) -> None:
        self.path, self.shape, self.dtype = folder / "values", shape, np.dtype(dtype)
        self.width = self.dtype.itemsize * math.prod(shape)
        index: np.ndarray = np.load(folder / "index.npy")
        if index.dtype != np.int64 or index.shape != (2, len(utterances)):
            raise ValueError(f"not the index of {len(utterances)} recordings")
        self.ends, self.samples = index
        if self.path.stat().st_size != self.width * self.ends[-1:].sum():
            raise ValueError("the values have another length")
        self.rows = {id_: row for row, id_ in enumerate(utterances.strings("id"))}
        self._open()

    def read(self, utterance: Utterance) -> Recording:
        row = self.rows[utterance.id]
        begin, end = int(self.ends[row - 1]) if row else 0, int(self.ends[row])
        values = np.empty((end - begin, *self.shape), self.dtype)
        buffer = values.reshape(-1).view(np.uint8).data
        if os.preadv(self.file.fileno(), [buffer], begin * self.width) < values.nbytes:
            raise UsageError(f"{self.path} was truncated while it was read; the same command builds it again")
        return values, int(self.samples[row])

    def _open(self) -> None:
        self.file = self.path.open("rb", buffering=0)  # stays open, because the folder may be removed
        weakref.finalize(self, self.file.close)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the open file: a spawned worker opens it again."""
        return {name: value for name, value in vars(self).items() if name != "file"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open()


def open_cache(
    folder: Path,
    utterances: Utterances,
    read: Callable[[Utterance], Recording],
    dtype: type,
    shape: tuple[int, ...],
    size: int,
) -> Cached:
    """Return the cache in `folder`, whose name contains its key. It is built with `read` if it is missing or damaged.

    size: approximate bytes needed. Raises UsageError if the cache cannot be written or an utterance cannot be read;
    then nothing is left behind.
    """
    try:
        if folder.exists() and (cached := _load(folder, utterances, dtype, shape)):
            return cached
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(f"{folder.name}.lock")
        with one_at_a_time(lock, f"waiting for the process that builds {folder}"):
            if not (folder.exists() and _load(folder, utterances, dtype, shape)):
                _build(folder, utterances, read, size)
        return Cached(folder, utterances, dtype, shape)
    except OSError as error:
        raise UsageError(
            f"cannot write the cache {folder}: {error.strerror or error}; set cache.root to a folder with "
            f"{amount(size)} free, or cache=none"
        ) from error


def _load(folder: Path, utterances: Utterances, dtype: type, shape: tuple[int, ...]) -> Cached | None:
    try:
        return Cached(folder, utterances, dtype, shape)
    except (OSError, ValueError, EOFError) as error:
        log.warning("the cache %s is damaged and is built again: %s", folder, error)
        return None


def _build(folder: Path, utterances: Utterances, read: Callable[[Utterance], Recording], size: int) -> None:
    # temporary folders of killed processes, and a damaged cache
    for remainder in [*folder.parent.glob(f".{folder.name}.*"), folder]:
        shutil.rmtree(remainder, ignore_errors=True)
    free = shutil.disk_usage(folder.parent).free
    if free < size:
        raise OSError(None, f"it needs {amount(size)}, and {amount(free)} are free")
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    temporary.mkdir()
    try:
        _write(temporary, in_threads(read, utterances, f"caching {folder.name}", chunk=4))
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def cache_key(utterances: Sequence[Utterance], made_by: str) -> str:
    """Return 16 hexadecimal digits over the utterances, the contents of their files, and the way recordings are made.

    made_by: a hash of the options and code that turn samples into recordings. Every key covers the code that reads
    audio and the versions of its libraries. Raises UsageError for a missing file.
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


def _write(folder: Path, recordings: Iterable[list[Recording]]) -> None:
    lengths = []
    with (folder / "values").open("wb") as file:
        for values, samples in itertools.chain.from_iterable(recordings):
            file.write(np.ascontiguousarray(values).data)
            lengths.append((len(values), samples))
        file.flush()
        os.fsync(file.fileno())
    frames, samples_of = np.array(lengths, dtype=np.int64).reshape(-1, 2).T
    np.save(folder / "index.npy", np.stack([frames.cumsum(), samples_of]))
