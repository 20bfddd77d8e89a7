"""Runs read from Weights & Biases, which mirrors a part of their records."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from asr_ablations.comparison.metrics import METRICS
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.records import Records, Unfinished
from asr_ablations.runs.status import DIVERGED, UnfinishedState
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import Json

UNCHECKED = (
    "the runs were read from Weights & Biases, which has neither utterances nor fingerprints of data, versions of "
    "behaviour, code and hardware: whether they differ in those is not known"
)


STATES: dict[str, UnfinishedState] = {"running": "running", "killed": "interrupted", "preempting": "interrupted"}
"""W&B's states of a run that has no result; any other is a failure."""


class ApiRun(Protocol):
    """The part of a run of wandb.Api that a record is made from."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def config(self) -> Json: ...
    def scan_history(self) -> Iterable[Json]:
        """Every row that was logged."""
        ...


def fetch(path: str) -> Records:
    """The runs of entity/project/group. Raises UsageError for a path of another form and for what W&B refuses."""
    parts = path.split("/")
    if len(parts) != 3 or not all(parts):
        raise UsageError(f"wandb={path}: expected wandb=entity/project/group")
    import wandb

    entity, project, group = parts
    try:
        runs = list(wandb.Api().runs(f"{entity}/{project}", filters={"group": group}))
    except (wandb.errors.Error, ValueError, OSError) as error:
        raise UsageError(f"wandb={path}: {' '.join(str(error).split())}") from error
    if not runs:
        raise UsageError(f"wandb={path}: there are no runs in this group")
    return from_runs(runs)


def from_runs(runs: Iterable[ApiRun]) -> Records:
    """Records of the finished runs and of those that diverged, and the states of the others. The records have no
    utterances: results that need them are not available, and the verdicts rest on seeds alone.
    """
    records: dict[bool, list[RunRecord]] = {True: [], False: []}
    unfinished: list[Unfinished] = []
    for run in runs:
        record = to_record(run)
        if run.state == "finished" or record.diverged_at is not None:
            records[record.diverged_at is not None].append(record)
        else:
            state = STATES.get(str(run.state), "failed")
            unfinished.append(Unfinished(record.folder, state, str(run.state), record.config, record.overrides))
    return Records(records[False], records[True], unfinished, [UNCHECKED] if any(records.values()) else [])


def to_record(run: ApiRun) -> RunRecord:
    """The record of a run, as far as W&B has it."""
    config = {key: value for key, value in dict(run.config).items() if not key.startswith("_wandb")}
    history = [dict(row) for row in run.scan_history()]
    return RunRecord(
        folder=Path(str(run.name)),
        config=config,
        overrides=[str(line) for line in config.get("overrides") or []],
        summary=_summary(run, config, history),
        metrics=[_metrics(row) for row in history],
        utterances=[],
        environment={},
        data={},
        model=str(run.id),
        diverged_at=max((int(row[DIVERGED]) for row in history if row.get(DIVERGED) is not None), default=None),
    )


def _summary(run: ApiRun, config: Json, history: Sequence[Json]) -> Json:
    """The parts of summary.json that were logged: final/<set>/<metric>, and the best validation WER."""
    sets: dict[str, dict[str, float]] = {}
    for row in history:
        for key, value in row.items():
            kind, _, rest = key.partition("/")
            name, _, rate = rest.rpartition("/")
            if kind == "final" and rate in METRICS:
                sets.setdefault(name, {})[rate] = float(value)
    data = config.get("data") or {}
    key = f"validation/{next(iter(data.get('validation') or []), None)}/wer"
    validation = [float(row[key]) for row in history if row.get(key) is not None]
    tests = list(data.get("test") or sets)
    epochs = [int(row["epoch"]) + 1 for row in history if row.get("epoch") is not None]
    return {
        "id": run.id,
        "sets": sets,
        "test_sets": tests,
        "best_validation_wer": min(validation, default=None),
        "epochs": max(epochs, default=None),
    }


def _metrics(row: Mapping[str, object]) -> dict[str, float | None]:
    """The numbers of a row of metrics.csv. W&B counts what it logged in _step; the trainer's step is its own column."""
    numbers = {key: float(value) for key, value in row.items() if isinstance(value, (int, float))}
    return {**numbers, "step": numbers.get("trainer/global_step")}
