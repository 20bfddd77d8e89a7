"""Files that are whole whenever they are there, and names that are safe for them."""

import csv
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""An object of JSON or YAML: names and values of any kind."""


def slug(text: str) -> str:
    """Letters that are safe in a folder name and need no quotes in a Hydra override: no '=', no ','."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-.") or "run"


@contextmanager
def whole_file(path: Path, ending: str = "") -> Iterator[Path]:
    """A temporary name beside `path`, renamed to it when the block is done: a file that is there is whole. Nothing is
    left of a block that raises. ending: of the temporary name, where a library goes by it (NumPy adds .npy).
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{ending}")
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write(path: Path, text: str) -> None:
    """Write a whole file of text, UTF-8."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: object) -> None:
    """Write a whole file of indented JSON."""
    write(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write a whole table with the keys of the first row as its head."""
    with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
        table.writeheader()
        table.writerows(rows)


def read_json(path: Path) -> Json:
    """The object that a JSON file holds. Raises OSError and ValueError as they come."""
    content: Json = json.loads(path.read_text(encoding="utf-8"))
    return content


def sha256(path: Path) -> str:
    """SHA-256 of a file in hexadecimal digits, read a piece at a time."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
