"""Read runs from Weights & Biases, which stores only parts of their records."""

import json
import math
import os
import re
import tempfile
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from asr_ablations.runs.layout import UTTERANCES
from asr_ablations.runs.reader import read_utterances
from asr_ablations.runs.status import DIVERGED
from asr_ablations.runs.sweep_history import evidence
from asr_ablations.runs.wandb_run import RECORD, as_fractions
from asr_ablations.tools.errors import refusals
from asr_ablations.tools.files import CONF
from asr_ablations.tools.typed_json import parse
from asr_verdicts.config import Config
from asr_verdicts.errors import UsageError
from asr_verdicts.evidence import UNDECLARED, Evidence
from asr_verdicts.files import Json
from asr_verdicts.metrics import METRICS
from asr_verdicts.record import (
    DataRecord,
    Record,
    Records,
    SetContent,
    SetResult,
    Summary,
    Unfinished,
    UnfinishedState,
    UtteranceRow,
)
from asr_verdicts.statistics.procedures import FIXED

IDENTITY = "identity"  # config key at W&B whose value is the run's id
UNCHECKED = (
    "the runs were read from Weights & Biases, which does not store data fingerprints, code, behaviour versions, "
    "hardware or earlier looks; differences in them are not detected"
)
RETRIES = 4
"""Attempts to reach the W&B server. Four take half a minute; W&B's default of 20 would take a quarter of an hour."""
WITHOUT_UTTERANCES = (
    "some runs did not upload their utterances (logger.artifacts=[utterances]), so verdicts are based on seeds only"
)
TRAINING = (None, "", "train")  # W&B job types of runs that can be arms; older runs have no job type
STATES: dict[str, UnfinishedState] = {"running": "running", "killed": "interrupted", "preempting": "interrupted"}
"""W&B's states of runs that have no result but did not fail."""

ApiRun: TypeAlias = Any
"""A run from wandb.Api, with id, name, state, job_type, config, summary, scan_history() and logged_artifacts()."""


def fetch(path: str) -> tuple[Records, Evidence]:
    """Read the runs of a group at W&B. Return their records and the evidence. path: entity/project/group.

    Raises UsageError if the path does not have this form, if W&B refuses the request, or if the group has no runs.
    """
    if not re.fullmatch("[^/]+/[^/]+/[^/]+", path):
        raise UsageError(f"wandb={path}: expected wandb=entity/project/group")
    import wandb

    project, _, group = path.rpartition("/")
    settings = wandb.Settings(silent=True)  # otherwise W&B prints a line for every downloaded file
    if "WANDB__GRAPHQL_RETRY_MAX" not in os.environ:
        settings.x_graphql_retry_max = RETRIES
    wandb.setup(settings)
    errors: tuple[type[Exception], ...] = (ValueError, *refusals())
    try:
        runs = list(wandb.Api().runs(project, filters={"group": group}))
        records = from_runs(runs)
    except errors as error:  # ValueError means that there is no such project
        raise UsageError(f"wandb={path}: {' '.join(str(error).split())}") from error
    if not runs:
        raise UsageError(f"wandb={path}: there are no runs in this group")
    return records, evidence_of(runs, records)


def from_runs(runs: Iterable[ApiRun]) -> Records:
    """Return the records of finished and diverged training runs, and the states of unfinished training runs.

    Evaluations and comparisons, which are also runs at W&B, are ignored.
    """
    read = [(run, to_record(run)) for run in trainings(runs)]
    diverged = [record for _, record in read if record.diverged_at is not None]
    finished = [record for run, record in read if record.diverged_at is None and run.state == "finished"]
    unfinished = [
        Unfinished(record.folder, STATES.get(str(run.state), "failed"), str(run.state), record.config, record.overrides)
        for run, record in read
        if record.diverged_at is None and run.state != "finished"
    ]
    lacking = [] if all(record.utterances for record in finished) else [WITHOUT_UTTERANCES]
    return Records(finished, diverged, unfinished, [UNCHECKED, *lacking] if finished or diverged else [])


def trainings(runs: Iterable[ApiRun]) -> list[ApiRun]:
    """Return the training runs, sorted by start time (in whole seconds) and then by folder name."""
    return sorted(
        (run for run in runs if run.job_type in TRAINING),
        key=lambda run: (str(read_folder(run).get("started", "")), str(run.name), str(run.config.get(IDENTITY, ""))),
    )


def read_folder(run: ApiRun) -> Json:
    """Return data that the logger sent from the run folder: start, place in the sweep, declaration, speakers."""
    return dict(json.loads(run.summary.get(RECORD) or "{}"))


def evidence_of(runs: Iterable[ApiRun], records: Records) -> Evidence:
    """Decide which statistical test the runs allow, as `gather` does for folders. W&B does not record earlier looks."""
    arms = trainings(runs)
    seen = evidence(str(run.config.get(IDENTITY)) for run in arms)
    declared = {tuple(read_folder(run).get("declared") or ()) for run in arms}
    if records.unfinished or declared != {(len(arms), seen)}:
        return UNDECLARED
    return Evidence(FIXED, "all declared runs have ended", complete=True)


def to_record(run: ApiRun) -> Record:
    """Convert a W&B run to a record, which contains only the parts that W&B stores.

    Raises UsageError if another program or version logged the run, because its rates might not be in percent.
    """
    config = nested({key: value for key, value in dict(run.config).items() if not key.startswith("_wandb")})
    history = [as_fractions(row) for row in run.scan_history()]
    recorded = read_folder(run)
    if not recorded and run.state == "finished":
        raise UsageError(f"run {run.name}: its summary lacks `{RECORD}`, so another program or version logged it")
    sets = {
        name: SetContent(speakers=speakers, in_training={"speakers": in_training})
        for name, (speakers, in_training) in recorded.get("speakers", {}).items()
    }
    return Record(
        folder=Path(str(run.name)),
        config=config,
        overrides=[str(line) for line in config.get("overrides") or []],
        summary=_read_summary(run, config, history),
        metrics=[_read_metrics(row) for row in history],
        utterances=_download_utterances(run),
        model=str(run.id),
        place=recorded.get("place"),
        data=DataRecord(sets=sets),
        diverged_at=max((int(row[DIVERGED]) for row in history if row.get(DIVERGED) is not None), default=None),
    )


def nested(config: Config) -> Config:
    """Restore the nested structure of a config that was logged with dotted keys.

    `rnn: lstm` becomes the class in conf/rnn/lstm.yaml, and `optimizer.lr` becomes the key `lr` of `optimizer`.
    """
    whole: Config = {key: _restore(key, value) for key, value in config.items() if "." not in key and key != IDENTITY}
    for key, value in config.items():
        *parents, last = key.split(".")
        node = whole
        for parent in parents:
            if not isinstance(node.get(parent), dict):
                node[parent] = {}
            node = node[parent]
        if parents:
            node[last] = value
    return whole


def _restore(group: str, value: object) -> object:
    file = CONF / group / f"{value}.yaml"
    if not isinstance(value, str) or not file.is_file():
        return value
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    node = content if "_target_" in content else content.get(group, {})
    return None if node is None else {"_target_": node.get("_target_")}


def _download_utterances(run: ApiRun) -> list[UtteranceRow]:
    """Download a run's table of utterances and return its rows; empty if the run did not upload the table."""
    for artifact in run.logged_artifacts():
        if artifact.type == "utterances":
            with tempfile.TemporaryDirectory() as folder:
                artifact.download(root=folder)
                return read_utterances(Path(folder) / UTTERANCES)
    return []


def _read_summary(run: ApiRun, config: Config, history: Sequence[Config]) -> Summary:
    """Rebuild a run's summary from values that it logged, such as final/<set>/<metric> and the validation WER."""
    sets: dict[str, dict[str, float]] = {}
    for key, value in ChainMap(*reversed(history)).items():
        kind, _, rest = key.partition("/")
        name, _, rate = rest.rpartition("/")
        if kind == "final" and rate in METRICS:
            sets.setdefault(name, {})[rate] = float(value)
    data = config.get("data") or {}
    set_ = f"validation/{next(iter(data.get('validation') or []), None)}"
    wers, losses, epochs = (
        [float(row[name]) for row in history if row.get(name) is not None]
        for name in (f"{set_}/wer", f"{set_}/loss", "epoch")
    )
    return Summary(
        id=run.id,
        sets={name: parse(SetResult, rates) for name, rates in sets.items() if "wer" in rates},
        test_sets=list(data.get("test") or sets),
        best_validation_wer=min(wers, default=None),
        validation_losses=list(filter(math.isfinite, losses)),
        epochs=int(max(epochs)) + 1 if epochs else None,
    )


def _read_metrics(row: Mapping[str, object]) -> dict[str, float | None]:
    """Convert a logged row to a row of metrics.csv. The step is trainer/global_step, because _step counts log calls."""
    numbers = {key: float(value) for key, value in row.items() if isinstance(value, (int, float))}
    return {**numbers, "step": numbers.get("trainer/global_step")}
