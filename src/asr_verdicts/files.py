"""Writing files completely or not at all, and safe names for folders."""

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
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]  # an object of JSON or YAML, with values of any kind


def slug(text: str) -> str:
    """Replace characters that are unsafe in a folder name or need quotes in a Hydra override, such as '='."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-.") or "run"


LONGEST_NAME = 100  # characters of a folder name; file systems allow 255 bytes


def folder_name(text: str) -> str:
    """Turn a text into a folder name. A long or changed text gets a hash, so that no two texts share a name."""
    name = slug(text)
    if name == text and len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}"


@contextmanager
def whole_file(path: Path, ending: str = "") -> Iterator[Path]:
    """Yield a temporary path, and rename it to `path` when the block ends, so that readers never see part of a file.

    If the block raises an error, the temporary file is removed. ending: suffix of the temporary path, for libraries
    that add one (NumPy adds .npy).
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
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error  # NumPy's message
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(temporary), temporary):
            error.filename = str(path)  # users do not know the temporary name; a full disk names no file
        raise


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Add the path to an operating system error that names no file, such as the error for a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno and error.filename is None:
            error.filename = str(path)
        raise


def write(path: Path, text: str) -> None:
    """Write a text file in UTF-8, completely or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")  # names of files can contain surrogates


def write_json(path: Path, content: object) -> None:
    """Write a file of indented JSON, completely or not at all."""
    write(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write a CSV table with the keys of the first row as its head, completely or not at all."""
    with (
        whole_file(path) as temporary,
        temporary.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
    ):
        table = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
        table.writeheader()
        table.writerows(rows)


def is_regular(path: Path) -> bool:
    """Return whether this is a regular file, not a pipe or a device. Raises OSError if it cannot be examined."""
    return stat.S_ISREG(path.stat().st_mode)
