"""The samples of a run's machine, read back."""

import csv
from pathlib import Path

from asr_ablations.runs.layout import UTILISATION
from asr_ablations.tools.files import Json

COLUMNS = (
    "seconds", "phase", "cpu_percent", "host_memory_gib", "disk_read_mib", "gpu_percent", "gpu_memory_gib",
    "gpu_power_watts", "audio_hours", "gpu_percents",
)  # fmt: skip
TEXTS = ("phase", "gpu_percents")


def read_utilisation(folder: Path) -> list[Json]:
    """The samples that a run left in its folder: numbers, None for what was not known, the phase's name, and
    gpu_percents as a list with a number per GPU. Empty without the file; lines that are no samples are passed over.
    """
    try:
        with (folder / UTILISATION).open(newline="", encoding="utf-8") as file:
            return [sample for line in csv.DictReader(file) if (sample := _sample(line)) is not None]
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


def _sample(line: dict[str, str]) -> Json | None:
    try:
        numbers = {key: float(line[key]) if line.get(key) else None for key in COLUMNS if key not in TEXTS}
        percents = [float(percent) for percent in (line.get("gpu_percents") or "").split()]
    except (TypeError, ValueError):
        return None
    if numbers["seconds"] is None:
        return None
    return {**numbers, "phase": line.get("phase") or "", "gpu_percents": percents}
