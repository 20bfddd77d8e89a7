"""Parquet and Arrow files, which contain audio files in a column of structs {bytes, path}.

An audio file in a table has the path <table>/<column>/<row>, as if the table were a folder. The module `audio` reads
such a path like any other. The package pyarrow is needed only for these paths.
"""

import re
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from asr_ablations.tools.content_keys import FileState
from asr_ablations.tools.errors import require
from asr_verdicts.errors import UsageError

SUFFIXES = (".parquet", ".arrow")
EMBEDDED = re.compile(r"(?s)(.+\.(?:parquet|arrow))/([^/]+)/(\d+)")


def place_in_table(path: Path | str) -> tuple[str, str, int] | None:
    """Return the table, column and row of an audio file in a table, or None for all other paths."""
    text = str(path)
    maybe = any(f"{suffix}/" in text for suffix in SUFFIXES)  # faster than the expression, for millions of paths
    match = EMBEDDED.fullmatch(text) if maybe else None
    return (match[1], match[2], int(match[3])) if match else None


def file_on_disk(path: Path | str) -> str:
    """Return the path of the file that contains an audio file: its table, or the audio file itself."""
    return (place_in_table(path) or [str(path)])[0]


UNREAD: Any = None, range(0), None
_recent = threading.local()  # the rows that a thread read last, because many are stored together and read in order


def read_audio(place: tuple[str, str, int]) -> bytes | None:
    """Return the bytes of an audio file in a table, or None if its row has none. Raises UsageError."""
    table, column, row = place
    wanted = table, column, FileState.read(table)
    key, rows, values = getattr(_recent, "read", UNREAD)
    if key != wanted or row not in rows:
        with _open(table) as file:
            rows, values = _load_rows(file, column, row)
        _recent.read = wanted, rows, values
    value = values[row - rows.start].as_py()
    return value and value["bytes"]


def _load_rows(file: Any, column: str, row: int) -> tuple[range, Any]:
    """Return the numbers and the values of rows that are stored together, including a given row."""
    if not hasattr(file, "num_row_groups"):
        return range(len(file)), file[column]
    starts = [0, *accumulate(file.metadata.row_group(group).num_rows for group in range(file.num_row_groups))]
    group = bisect_right(starts, row) - 1
    values = file.read_row_group(group, columns=[f"{column}.bytes"], use_threads=False)[column]
    return range(starts[group], starts[group + 1]), values


def read_columns(table: Path, audio: str, columns: Sequence[str]) -> tuple[list[str | None], list[dict[str, Any]]]:
    """Return the names of the audio files in a table, None if unknown, and each row's values in other columns.

    Raises UsageError if a column is missing, or if the column `audio` contains no audio files.
    """
    with _open(str(table)) as file:
        from pyarrow.compute import struct_field

        schema = file.schema_arrow if table.suffix == ".parquet" else file.schema
        check_columns(table, schema.names, [audio, *columns])
        kind = schema.field(audio).type
        fields = [kind.field(i).name for i in range(kind.num_fields)]
        if "bytes" not in fields:
            raise UsageError(f"{table}: column {audio} is {kind}: expected structs of bytes and path, with audio files")
        if table.suffix == ".parquet":
            leaf = f"{audio}.{'path' if 'path' in fields else 'bytes'}"  # one leaf, because bytes take most of the file
            file = file.read(columns=[*columns, leaf], use_threads=False)
        names = struct_field(file[audio], "path").to_pylist() if "path" in fields else [None] * len(file)
        return names, file.select(columns).to_pylist()


def check_columns(table: Path, names: Iterable[str], needed: Iterable[str]) -> None:
    """Raise UsageError if a needed column is missing. names: names of all columns"""
    if absent := [name for name in needed if name not in {*names}]:
        raise UsageError(f"{table}: no column {', '.join(absent)}: expected one of {', '.join(sorted(names))}")


@contextmanager
def _open(table: str) -> Iterator[Any]:
    """Yield a pyarrow.parquet.ParquetFile, or the pyarrow.Table of an Arrow file, as `datasets` writes them.

    An Arrow file is mapped into memory, so that only the rows in use are read. Raises UsageError if pyarrow is missing,
    or cannot read the table.
    """
    require("parquet", "Parquet and Arrow files", "pyarrow")
    from pyarrow import ArrowException, ipc, memory_map, parquet

    try:
        yield ipc.open_stream(memory_map(table)).read_all() if table.endswith(".arrow") else parquet.ParquetFile(table)
    except (ArrowException, OSError) as error:
        raise UsageError(f"cannot read {table}: {[*str(error).splitlines(), ''][0]}") from error
