"""Truncate the tables that grow during training to a checkpoint's state, and read samples of machine utilisation."""

import csv
import itertools
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from asr_ablations.runs.layout import UTILISATION
from asr_verdicts.files import Json, write_csv

FIGURES = ("loss", "wer", "cer", "cer_longer")
"""Values logged for every validation set, in the columns validation/<set>/<value> of metrics.csv."""


def keep_batches(path: Path, batches: int) -> None:
    """Remove a table's rows whose value in the column `batches` exceeds the argument. Delete a table without rows."""
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        truncate(path, sum(int(row["batches"]) <= batches for row in rows))


def truncate(path: Path, rows: int) -> list[dict[str, str]]:
    """Truncate a CSV table to its first `rows` rows, and return them. A table without rows is deleted."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        first = list(itertools.islice(csv.DictReader(file), rows))
    if first:
        write_csv(path, first)
    else:
        path.unlink()
    return first


COLUMNS = (
    "seconds", "phase", "cpu_percent", "host_memory_gib", "disk_read_mib", "gpu_percent", "gpu_memory_gib",
    "gpu_power_watts", "audio_hours", "gpu_percents", "part",
)  # fmt: skip
TEXTS = ("phase", "gpu_percents", "part")
MEANS = ("cpu_percent", "gpu_percent", "gpu_power_watts")
"""Columns whose values are means over the time since the previous sample."""
ALMOST_A_SECOND = 0.9


def read_utilisation(folder: Path) -> list[Json]:
    """Read a run's utilisation samples. Invalid lines are skipped; the list is empty if the file cannot be read.

    Unknown numbers are None. gpu_percents has one number per GPU, and part is the current part of the training step.
    """
    try:
        with (folder / UTILISATION).open(newline="", encoding="utf-8") as file:
            return [sample for line in csv.DictReader(file) if (sample := _parse_sample(line)) is not None]
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


def by_second(samples: Sequence[Json]) -> list[Json]:
    """Combine consecutive samples of the same phase into about one sample per second."""
    groups: list[list[Json]] = []
    for sample in samples:
        first = groups[-1][0] if groups else None
        if first and sample["phase"] == first["phase"] and sample["seconds"] - first["seconds"] < ALMOST_A_SECOND:
            groups[-1].append(sample)
        else:
            groups.append([sample])
    return [_join(group) for group in groups]


def _join(group: list[Json]) -> Json:
    """Combine samples into one: mean percentages and power, total disk reads, and the last value of other columns."""
    means = {key: _mean([sample[key] for sample in group]) for key in MEANS}
    read = [sample["disk_read_mib"] for sample in group if sample["disk_read_mib"] is not None]
    each = [_mean(percents) for percents in zip(*(sample["gpu_percents"] for sample in group), strict=False)]
    return {**group[-1], **means, "disk_read_mib": sum(read) if read else None, "gpu_percents": each}


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if numbers else None


def _parse_sample(line: dict[str, str]) -> Json | None:
    try:
        numbers = {key: float(line[key]) if line.get(key) else None for key in COLUMNS if key not in TEXTS}
        percents = [float(percent) for percent in (line.get("gpu_percents") or "").split()]
    except (TypeError, ValueError):
        return None
    texts = {key: line.get(key) or "" for key in ("phase", "part")}
    return None if numbers["seconds"] is None else {**numbers, **texts, "gpu_percents": percents}
