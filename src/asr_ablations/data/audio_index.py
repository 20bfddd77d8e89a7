"""What is known of audio files, kept between runs: an arm of a sweep does not hash or decode again what another did."""

import logging
import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

TABLES = """
create table if not exists files (
    path text primary key, size integer, changed integer, samples integer, rate integer, content text);
create table if not exists heard (
    path text, begin real, seconds real, size integer, changed integer, fault text,
    primary key (path, begin, seconds));
"""
ASKED_AT_ONCE = 500


@dataclass(frozen=True)
class State:
    """A file as it is: bytes, and the time of its last change in ns. Whoever sets the time back goes unnoticed."""

    size: int
    changed: int

    @staticmethod
    def of(path: Path) -> "State | None":
        try:
            told = path.stat()
        except OSError:
            return None
        return State(told.st_size, told.st_mtime_ns)


def place() -> Path:
    """The database: $ASR_ABLATIONS_INDEX, or audio-index-1.sqlite in the user's cache."""
    if told := os.environ.get("ASR_ABLATIONS_INDEX"):
        return Path(told)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "asr-ablations" / "audio-index-1.sqlite"


def recall(table: str, paths: Iterable[Path]) -> list[tuple[Any, ...]]:
    """All rows of a table on these paths."""
    wanted = [str(path) for path in paths]
    parts = [wanted[i : i + ASKED_AT_ONCE] for i in range(0, len(wanted), ASKED_AT_ONCE)]
    return [row for part in parts for row in _ask(f"select * from {table} where path in ({_marks(part)})", part)]


def remember(table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Add or replace rows."""
    if rows:
        _ask(f"insert or replace into {table} values ({_marks(rows[0])})", rows, many=True)


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def _ask(statement: str, values: Sequence[Any], many: bool = False) -> list[tuple[Any, ...]]:
    """Without a database that can be used nothing is remembered, and everything works."""
    try:
        place().parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(place(), timeout=60)) as database, database:
            database.executescript(TABLES)
            return (database.executemany if many else database.execute)(statement, values).fetchall()
    except (sqlite3.Error, OSError) as error:
        log.warning("%s cannot be used, what is known of audio files is not kept: %s", place(), error)
        return []
