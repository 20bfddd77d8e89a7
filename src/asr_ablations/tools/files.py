"""Files that are whole whenever they are there, and names that are safe for them."""

import csv
import json
import os
import re
from pathlib import Path
from typing import Any


def slug(text: str) -> str:
    """Letters that are safe in a folder name and need no quotes in a Hydra override: no '=', no ','."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-.") or "run"


def write(path: Path, text: str) -> None:
    """Write under a temporary name and rename: a file that is there is whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def write_json(path: Path, content: Any) -> None:
    """As `write`, indented JSON."""
    write(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """As `write`, a table with the keys of the first row as its head."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
        table.writeheader()
        table.writerows(rows)
    temporary.replace(path)
