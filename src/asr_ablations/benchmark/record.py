"""Run the benchmark that a config names and keep what it found."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from asr_ablations.config import build, check
from asr_ablations.experiment import quiet
from asr_ablations.run import Run, write_json


def measure(cfg: DictConfig) -> Path:
    """The folder with config, environment and result.json of one benchmark. Raises UsageError for a wrong config."""
    check(cfg)
    quiet()
    with Run(cfg) as record:
        found: dict[str, Any] = build(cfg.benchmark)(cfg)
        write_json(record.folder / "result.json", found)
    console = Console(highlight=False)
    for key, rows in [(record.name, _figures(found)), *((k, v) for k, v in found.items() if isinstance(v, list))]:
        console.print(_table(key, rows))
    console.print(f"result in {record.folder}", soft_wrap=True)
    return record.folder


def _figures(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"figure": key, "value": value} for key, value in found.items() if not isinstance(value, list)]


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    """Rows of the same keys; numbers to four digits."""
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(rows[0]):
        table.add_column(column.replace("_", " "), justify="right" if number else "left")
    for row in rows:
        table.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values()))
    return table
