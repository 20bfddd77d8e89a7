"""Write files atomically, and make safe folder names."""

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

Json: TypeAlias = dict[str, Any]  # a JSON or YAML object, with values of any type


def slug(text: str) -> str:
    """Replace characters with hyphens if they are unsafe in folder names or, like =, need quotes in Hydra overrides."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-.") or "run"


LONGEST_NAME = 100  # maximum length of a folder name in characters; file systems allow 255 bytes


def folder_name(text: str) -> str:
    """Turn a string into a folder name. If it must be shortened or changed, add a hash to keep names unique."""
    name = slug(text)
    if name == text and len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}"


@contextmanager
def whole_file(path: Path, ending: str = "") -> Iterator[Path]:
    """Yield a temporary path for writing a file, and rename it to `path` atomically when the block ends.

    If the block raises an error, the temporary file is removed. ending: suffix of the temporary path, for libraries
    that would otherwise append it, as NumPy appends .npy.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{ending}")
    try:
        yield temporary
        with suppress(FileNotFoundError), temporary.open("rb") as file:
            os.fsync(file.fileno())  # otherwise the renamed file can be incomplete after a power cut
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):  # the folder may not exist
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is None and re.search(r"requested and \d+ written", str(error)):
            # NumPy reports a full disk without an errno
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(temporary), temporary):
            error.filename = str(path)  # the user does not know the temporary path
        raise


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Add `path` to an OSError that the block raises without a file name, such as the error for a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno and error.filename is None:
            error.filename = str(path)
        raise


def write(path: Path, text: str) -> None:
    """Write a text file in UTF-8 atomically."""
    with whole_file(path) as temporary:
        # file names in the text may contain surrogates, which UTF-8 cannot encode
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: Path, content: object) -> None:
    """Write an indented JSON file atomically."""
    write(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write a CSV file atomically, with the keys of the first row as its header."""
    with (
        whole_file(path) as temporary,
        temporary.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
    ):
        table = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
        table.writeheader()
        table.writerows(rows)


def is_regular(path: Path) -> bool:
    """Return whether a path is a regular file, not a pipe or a device. Raises OSError if it cannot be accessed."""
    return stat.S_ISREG(path.stat().st_mode)
