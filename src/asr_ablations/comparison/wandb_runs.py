"""Weights & Biases as a mirror of the records: runs read from it, comparisons logged to it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.records import Records
from asr_ablations.tools.errors import UsageError

UNCHECKED = (
    "the runs were read from Weights & Biases, which has neither utterances nor fingerprints of data, versions of "
    "behaviour, code and hardware: whether they differ in those is not known"
)


def fetch(path: str) -> Records:
    """The runs of entity/project/group through W&B's API. Raises UsageError for another form or what it refuses."""
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


def from_runs(runs: Iterable[Any]) -> Records:
    """What wandb.Api gives as records, those that did not finish apart. They have no utterances: what needs them is
    not available, and the verdicts rest on seeds alone.
    """
    finished, unfinished = [], []
    for run in runs:
        if run.state == "finished":
            finished.append(to_record(run))
        else:
            unfinished.append((Path(run.name), str(run.state)))
    return Records(finished, unfinished, [UNCHECKED] if finished else [])


def to_record(run: Any) -> RunRecord:
    """One run of wandb.Api: `id`, `name`, `config`, `scan_history()`."""
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
    )


def _summary(run: Any, config: Mapping[str, Any], history: list[dict[str, Any]]) -> dict[str, Any]:
    """The parts of summary.json that were logged: final/<set>/wer and cer, and the best validation WER."""
    sets: dict[str, dict[str, float]] = {}
    for row in history:
        for key, value in row.items():
            kind, _, rest = key.partition("/")
            name, _, rate = rest.rpartition("/")
            if kind == "final" and rate in ("wer", "cer"):
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


def _metrics(row: Mapping[str, Any]) -> dict[str, float | None]:
    """W&B counts what it logged in _step; the trainer's step is its own column."""
    numbers = {key: float(value) for key, value in row.items() if isinstance(value, (int, float))}
    return {**numbers, "step": numbers.get("trainer/global_step")}
