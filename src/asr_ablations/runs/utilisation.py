"""utilisation.csv read back."""

import csv
from pathlib import Path
from typing import Any

FILE = "utilisation.csv"


COLUMNS = (
    "seconds", "phase", "cpu_percent", "host_memory_gib", "disk_read_mib", "gpu_percent", "gpu_memory_gib",
    "gpu_power_watts", "audio_hours", "gpu_percents",
)  # fmt: skip


TEXTS = ("phase", "gpu_percents")


def read(folder: Path) -> list[dict[str, Any]]:
    """The samples that a run left in its folder: numbers, None for what was not known, the phase's name, gpu_percents
    as a list. Empty without the file; lines that are no samples are passed over.
    """
    try:
        with (folder / FILE).open(newline="", encoding="utf-8") as file:
            return [row for line in csv.DictReader(file) if (row := _row(line)) is not None]
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


def _row(line: dict[str, str]) -> dict[str, Any] | None:
    try:
        numbers = {key: float(line[key]) if line.get(key) else None for key in COLUMNS if key not in TEXTS}
        each = [float(one) for one in (line.get("gpu_percents") or "").split()]
    except (TypeError, ValueError):
        return None
    return None if numbers["seconds"] is None else {**numbers, "phase": line.get("phase") or "", "gpu_percents": each}
