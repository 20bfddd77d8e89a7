"""The record of one run that has a result."""

from dataclasses import dataclass
from pathlib import Path

from asr_ablations.tools.files import Json


@dataclass(frozen=True)
class RunRecord:
    """Everything that a run left in its folder.

    metrics: rows of metrics.csv, numbers or None; utterances: rows of utterances.csv, counts as int, none for a run
    that diverged. model: the trained weights that were tested, as <id of the run>/<file of the checkpoint>; records
    with the same model differ in their decoder alone, and can be paired; "" where it is not known. searched: a search
    proposed this run, so that it may have been chosen for its luck. diverged_at: the step, counted from 1, at which the
    loss was no finite number; None for a finished run. place: among the runs that its sweep named, from 0; None where
    that is not known.
    """

    folder: Path
    config: Json
    overrides: list[str]
    summary: Json
    metrics: list[dict[str, float | None]]
    utterances: list[Json]
    environment: Json
    data: Json
    model: str = ""
    searched: bool = False
    diverged_at: int | None = None
    place: int | None = None

    @property
    def seed(self) -> int:
        return int(self.config["seed"])
