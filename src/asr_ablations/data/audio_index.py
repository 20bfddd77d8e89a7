"""Database of what is known about audio files, kept between runs: no arm of a sweep hashes or decodes a file again."""

import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.paths import expanded

log = logging.getLogger(__name__)

TABLES = """
create table if not exists files (
    path text primary key, size integer, changed integer, samples integer, rate integer, content text);
create table if not exists heard (
    path text, begin real, seconds real, size integer, changed integer, fault text,
    primary key (path, begin, seconds));
create index if not exists faulty on heard (path) where fault != '';
create table if not exists decoded (digest text primary key, faults integer);
"""
PATHS_PER_QUERY = 500


@dataclass(frozen=True)
class FileState:
    """Size in bytes and time of the last change in ns. A file whose time was set back is taken for unchanged."""

    size: int
    changed: int

    @staticmethod
    def of(path: Path) -> "FileState | None":
        """Return the present state of a file, or None if there is no such file."""
        try:
            status = path.stat()
        except (OSError, ValueError):
            return None
        return FileState(status.st_size, status.st_mtime_ns)


class FileRow(NamedTuple):
    """A file by its header and bytes: state, samples per channel, Hz, hash of the content."""

    path: str
    size: int
    changed: int
    samples: int
    rate: int
    content: str


class DecodedRow(NamedTuple):
    """A decoded part of a file: begin and length in seconds, state of the file, fault ("" for none)."""

    path: str
    begin: float
    seconds: float
    size: int
    changed: int
    fault: str


Row = TypeVar("Row", FileRow, DecodedRow)
TABLE_OF: dict[type, str] = {FileRow: "files", DecodedRow: "heard"}


def index_path() -> Path:
    """Return the database: $ASR_ABLATIONS_INDEX, or audio-index-1.sqlite in the user's cache folder."""
    if path := os.environ.get("ASR_ABLATIONS_INDEX"):
        return Path(path)
    cache = expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return cache / "asr-ablations" / "audio-index-1.sqlite"


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


def _execute(work: Callable[[sqlite3.Connection], list[tuple[object, ...]]]) -> list[tuple[object, ...]]:
    """Run `work` in one transaction. With a database that cannot be used nothing is kept, and everything works."""
    try:
        index_path().parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(index_path(), timeout=60)) as database, database:
            database.executescript(TABLES)
            return work(database)
    except (sqlite3.Error, OSError, UnicodeEncodeError, UsageError) as error:
        log.warning("the index of audio files cannot be used, what is known of them is not kept: %s", error)
        return []
