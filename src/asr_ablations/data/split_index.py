"""The index of a split, kept between runs: while nothing has changed, no run and no rank reads the split again.

A file of columns in the user's cache folder. It holds for as long as the folders and texts that were read, and all
audio files, have their sizes, inodes and times of change. Beside a corpus of 281,241 utterances it has 120 MB.
"""

import logging
import os
import time
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from asr_ablations.data import audio
from asr_ablations.data.utterances import MISSING, STATE, Columns, PackedTexts, Utterances
from asr_ablations.tools.content_keys import FileState, content_key, dotted_name, hash_classes, library_versions
from asr_ablations.tools.machine import one_at_a_time
from asr_verdicts.files import whole_file

log = logging.getLogger(__name__)

LEAST = 10_000
"""Utterances of the smallest split that is kept: a smaller one is read in a second."""
SETTLED = 2_000_000_000
"""Nanoseconds for which nothing has changed before a split is kept: a second change might leave size and time."""
UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)

_sources: ContextVar["dict[str, FileState] | None"] = ContextVar("sources", default=None)


@contextmanager
def noted_sources() -> Iterator[dict[str, FileState]]:
    """Within the context, what `note` is called with, and the state that it had then."""
    sources: dict[str, FileState] = {}
    token = _sources.set(sources)
    try:
        yield sources
    finally:
        _sources.reset(token)


def note(path: Path) -> None:
    """Note a folder that is about to be listed, or a text that is about to be read."""
    if (sources := _sources.get()) is not None:
        sources[str(path)] = FileState.of(path) or MISSING


def defined_together(reader: type, *methods: str) -> bool:
    """Return whether one class defines these methods of `reader`: a subclass may have changed one of them alone."""
    return len({next(c for c in reader.__mro__ if name in vars(c)) for name in methods}) == 1


class SplitIndex:
    """The index of one split. reader: the class that reads it; place: what decides what it reads, beside files."""

    def __init__(self, reader: type, place: Sequence[object]) -> None:
        self.code = content_key(64, sources=hash_classes([reader]), versions=library_versions())
        name = content_key(reader=dotted_name(reader), place=[*map(str, place), os.getcwd(), os.path.expanduser("~")])
        database = audio.index_path()
        self.path = database.with_name(f"{database.stem}-splits") / f"{name}.npz"

    def load(self) -> Utterances | None:
        """Return the utterances if nothing has changed since they were kept, else None."""
        try:
            with self.path.open("rb") as opened, np.load(opened) as file:
                arrays = {name: file[name] for name in file.files}  # the format has a checksum of each
            if str(arrays["code"]) != self.code:
                return None
            sources = PackedTexts(arrays["sources_content"].tobytes(), arrays["sources_ends"])
            columns = Columns.from_arrays(arrays)
        except UNREADABLE:
            return None
        unchanged = _as_before(sources, arrays["source_states"].T) and _as_before(
            columns.texts["audio"], np.stack([columns.numbers[name] for name in STATE])
        )
        return Utterances([columns], np.arange(len(columns))) if unchanged else None

    def alone(self, split: str) -> AbstractContextManager[None]:
        """A context for one process at a time; the others wait. Where nothing can be kept, nobody waits."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            return nullcontext()
        if not os.access(self.path.parent, os.W_OK):
            return nullcontext()
        return one_at_a_time(self.path.with_suffix(".lock"), f"waiting for the process that reads {split}")

    def store(self, utterances: Utterances, sources: dict[str, FileState], begun: int) -> None:
        """Keep what was read from `begun` on, a time in ns, unless something had changed just before."""
        names = PackedTexts.of(sources)
        states = np.array([*sources.values()], np.int64).reshape(-1, len(STATE))
        (columns,) = utterances.blocks
        if max(states[:, -1].max(initial=0), columns.numbers["changed"].max(initial=0)) > begun - SETTLED:
            return
        arrays: dict[str, Any] = {
            "code": np.array(self.code),
            "source_states": states,
            "sources_content": np.frombuffer(names.content, np.uint8),
            "sources_ends": names.ends,
            **columns.arrays(),
        }
        try:
            with whole_file(self.path) as temporary, temporary.open("wb") as file:
                np.savez(file, **arrays)
        except OSError as error:
            log.warning("the index of the split cannot be kept, and is made again: %s", error)


def now() -> int:
    """The time in ns, by the clock of the files' times."""
    return time.time_ns()


def _as_before(paths: PackedTexts, states: np.ndarray) -> bool:
    """Return whether files have their states (3, N), as FileState. A repeated file is looked at once."""
    previous = None
    for row, state in enumerate(states.T.tolist()):
        if (path := paths[row]) == previous:
            continue
        previous = path
        if (FileState.of(path) or MISSING) != FileState(*state):
            return False
    return True
