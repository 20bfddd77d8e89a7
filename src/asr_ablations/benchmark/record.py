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
    table = Table(title=record.name, title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for key, value in found.items():
        table.add_row(key, f"{value:.4g}" if isinstance(value, float) else str(value))
    console = Console(highlight=False)
    console.print(table)
    console.print(f"result in {record.folder}", soft_wrap=True)
    return record.folder
