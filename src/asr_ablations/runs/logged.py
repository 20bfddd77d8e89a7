"""What a run has sent to Weights & Biases."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asr_ablations.runs.layout import LOGGED
from asr_ablations.tools.files import read_json, write_json


class Logged:
    """What a run has sent to W&B, in its folder: a resumed one repeats steps from the checkpoint on, and offline W&B
    counts its rows from 0 again.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOGGED
        try:
            known = read_json(self.path)
        except (OSError, ValueError):
            known = {"rows": 0, "steps": {}}
        self.rows, self.steps = int(known["rows"]), dict(known["steps"])
        self._resumed = self.rows > 0

    def new(self, metrics: Mapping[str, float], step: int | None) -> dict[str, float]:
        """The metrics that were not logged at this step or after it; empty where nothing but the epoch is left."""
        row = {key: value for key, value in metrics.items() if step is None or self.steps.get(key, -1) < step}
        return row if set(row) - {"epoch"} else {}

    def place(self) -> dict[str, Any]:
        """Where the next row goes: behind all earlier ones."""
        first, self._resumed = self._resumed, False
        return {"step": self.rows, "commit": True} if first else {}

    def add(self, row: Mapping[str, float], step: int | None) -> None:
        self.rows += 1
        if step is not None:
            self.steps |= dict.fromkeys(row, step)
        write_json(self.path, {"rows": self.rows, "steps": self.steps})
