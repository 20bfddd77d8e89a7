"""The record of one finished run."""

from dataclasses import dataclass
from pathlib import Path

from asr_ablations.tools.files import Json


@dataclass(frozen=True)
class RunRecord:
    """Everything that a run left in its folder.

    metrics: rows of metrics.csv, numbers or None; utterances: rows of utterances.csv, counts as int.
    """

    folder: Path
    config: Json
    overrides: list[str]
    summary: Json
    metrics: list[dict[str, float | None]]
    utterances: list[Json]
    environment: Json
    data: Json

    @property
    def seed(self) -> int:
        return int(self.config["seed"])
