"""What metrics.csv holds, and the tables that grow with training cut to what a checkpoint has seen."""

import csv
from pathlib import Path

from asr_ablations.tools.files import write_csv

FIGURES = ("loss", "wer", "cer", "cer_longer")
"""The figures of every validation set: its column of metrics.csv is validation/<set>/<figure>."""


def keep_batches(path: Path, batches: int) -> None:
    """Leave the rows of a table whose column `batches` is at most this; without any, no file is left."""
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        truncate(path, sum(int(row["batches"]) <= batches for row in rows))


def truncate(path: Path, rows: int) -> list[dict[str, str]]:
    """Leave the first `rows` rows of a table, and return them; without any, no file is left."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        kept = [row for _, row in zip(range(rows), csv.DictReader(file), strict=False)]
    if kept:
        write_csv(path, kept)
    else:
        path.unlink()
    return kept
