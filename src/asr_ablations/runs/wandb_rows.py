"""The rows that a run has logged to Weights & Biases."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from asr_ablations.runs.layout import LOGGED
from asr_verdicts.files import Json

Table: TypeAlias = Sequence[Any]
"""A table's columns and rows."""


class Logged:
    """The rows that a run has logged, in its folder: a resumed one repeats steps from the checkpoint on, and W&B's own
    file lacks the last rows of a run that was killed, as its server may.

    rows: {"values", "tables", "step", "time"}, W&B's step is their place; cut: whether the latest part of the run has
    not ended, so that W&B's file and server may lack rows of it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOGGED
        self.rows: list[Json] = []
        self.cut = False
        self._steps: dict[str, int] = {}
        for line in self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []:
            try:
                self._take(json.loads(line))
            except ValueError:  # the last line of a run that was killed
                break

    def new(self, metrics: Mapping[str, float], step: int | None) -> dict[str, float]:
        """The metrics that were not logged at this step or after it; empty where nothing but the epoch is left."""
        row = {key: value for key, value in metrics.items() if step is None or self._steps.get(key, -1) < step}
        return row if set(row) - {"epoch"} else {}

    def add(self, values: Mapping[str, float], step: int | None, tables: Mapping[str, Table] | None = None) -> Json:
        """Keep a row; the row."""
        row = {"values": {key: _number(value) for key, value in values.items()}, "time": time.time()}
        return self._write({**row, "step": step, "tables": dict(tables or {})})

    def part(self, *, begins: bool, project: str | None = None) -> None:
        """Keep that a part begins, or has ended with all its rows in W&B's file or on its server. project: the address
        of W&B's project, None for a part that is offline.
        """
        self._write({"begins": begins, "project": project})

    def _write(self, content: Json) -> Json:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(content) + "\n")
        self._take(content)
        return content

    def _take(self, content: Json) -> None:
        if "begins" in content:
            self.cut = content["begins"]
            return
        self.rows.append(content)
        if content["step"] is not None:
            self._steps |= dict.fromkeys([*content["values"], *content["tables"]], content["step"])


def project_of(folder: Path) -> str | None:
    """The address of the project at W&B to which the latest part of a run was logged; None where it was offline."""
    try:
        lines = (folder / LOGGED).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    beginnings = [line for line in lines if line.startswith('{"begins": true') and line.endswith("}")]
    address = json.loads(beginnings[-1]).get("project") if beginnings else None
    return None if address is None else str(address)


def _number(value: Any) -> Any:
    """A tensor of one number as that number."""
    return value.item() if hasattr(value, "item") else value
