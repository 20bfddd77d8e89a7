"""The record of one finished run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RunRecord:
    """The record of one finished run, read from its folder.

    metrics: rows of metrics.csv, numbers or None; utterances: rows of utterances.csv, counts as int.
    """

    folder: Path
    config: dict[str, Any]
    overrides: list[str]
    summary: dict[str, Any]
    metrics: list[dict[str, float | None]]
    utterances: list[dict[str, Any]]
    environment: dict[str, Any]
    data: dict[str, Any]

    @property
    def seed(self) -> int:
        return int(self.config["seed"])
