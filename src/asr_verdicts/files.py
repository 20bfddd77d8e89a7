"""Files that are written whole or not at all, and safe names for them."""

import csv
import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

Json: TypeAlias = dict[str, Any]  # an object of JSON or YAML: names and values of any kind


def slug(text: str) -> str:
    """Replace letters that are unsafe in a folder's name or need quotes in a Hydra override, such as '='."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-.") or "run"


LONGEST_NAME = 100  # letters of a folder's name; file systems end at 255 bytes


def folder_name(text: str) -> str:
    """The text as a folder's name. Long texts and other letters get a hash, so that no two texts share a name."""
    name = slug(text)
    if name == text and len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}"


@contextmanager
def whole_file(path: Path, ending: str = "") -> Iterator[Path]:
    """Yield a temporary name, and rename it to `path` when the block ends, so that an existing file is whole.

    If the block raises, nothing is left. ending: of the temporary name, for libraries that use it (NumPy adds .npy).
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{ending}")
    try:
        yield temporary
        with suppress(FileNotFoundError), temporary.open("rb") as file:
            os.fsync(file.fileno())  # otherwise a power cut after the rename can leave it incomplete
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):  # if the folder of `path` is missing
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is None and re.search(r"requested and \d+ written", str(error)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error  # in NumPy's words
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(temporary), temporary):
            error.filename = str(path)  # users do not know the temporary name; a full disk names no file
        raise


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Add the file's name to an error of the system that names no file, such as a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno and error.filename is None:
            error.filename = str(path)
        raise


def write(path: Path, text: str) -> None:
    """Write a whole file of text, UTF-8."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")  # surrogates from names


def write_json(path: Path, content: object) -> None:
    """Write a whole file of indented JSON."""
    write(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _open_table(path: Path) -> IO[str]:
    """Open a table for writing; surrogates, which file names can contain, are spelled out."""
    return path.open("w", newline="", encoding="utf-8", errors="backslashreplace")


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write a whole table with the keys of the first row as its head."""
    with whole_file(path) as temporary, _open_table(temporary) as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
        table.writeheader()
        table.writerows(rows)


def is_regular(path: Path) -> bool:
    """Return whether this is a plain file, which can be read to its end, unlike a pipe or a device. Raises OSError."""
    return stat.S_ISREG(path.stat().st_mode)
