"""Lightning's logger for Weights & Biases, extended for interrupted runs and for an unreachable server."""

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from omegaconf import OmegaConf
from pytorch_lightning.loggers import WandbLogger

from asr_ablations import SAMPLE_RATE
from asr_ablations.components.logger.plain_config import plain_config
from asr_ablations.data.audio import AudioError, read
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import BEST, CHECKPOINTS, CONFIG, METRICS, UTTERANCES
from asr_ablations.runs.metrics_files import FIGURES
from asr_ablations.runs.reader import read_data, read_environment, read_metrics
from asr_ablations.runs.sweep_history import declared, evidence, places
from asr_ablations.runs.wandb_run import (
    LONGEST_TAG,
    RECORD,
    SYNCED,
    begin,
    end,
    in_percent,
    list_tags,
    sync_command,
    unsynced,
)
from asr_ablations.tools.checks import a_list, label_or_null, whole
from asr_ablations.tools.errors import refusals
from asr_ablations.training.contracts import Recording
from asr_verdicts.errors import choices
from asr_verdicts.files import Json

if TYPE_CHECKING:
    import wandb

ARTIFACTS = {"config": CONFIG, "utterances": UTTERANCES, "best": f"{CHECKPOINTS}/{BEST}"}
"""Files that can be uploaded, by their names in logger.artifacts."""
STEP = "trainer/global_step"
RECORDING = "recording"
"""Name of the audio column, which is the last column of a table with audio."""


def wandb_logger(
    run: Run,
    *,
    project: str,
    entity: str | None,
    artifacts: list[str] | None,
    audio: int,
    name: str | None,
    tags: list[str] | None,
    notes: str | None,
) -> "RunLogger":
    """Build a logger for a W&B run with a flat config. The run's sweep is its group at W&B.

    - artifacts: keys of ARTIFACTS, whose files are uploaded at the end of the run
    - audio: number of examples per set that are logged with audio
    - name: name of the W&B run; None uses the name of the run folder
    - tags: tags in addition to the overrides that vary in the sweep
    - notes: notes on the run; None uses the question in the sweep file

    Raises UsageError for values that W&B does not accept.
    """
    artifacts = [] if artifacts is None else a_list("logger.artifacts", artifacts)
    tags = [] if tags is None else a_list("logger.tags", tags)
    for key, value in (("logger.project", project), ("logger.entity", entity)):
        if label_or_null(key, value) is not None and not isinstance(value, str):
            raise choices(key, value, f"a name; quote a number: {key}=\"'{value}'\"")
    for artifact in artifacts:
        if artifact not in ARTIFACTS:
            raise choices("logger.artifacts", artifact, list(ARTIFACTS))
    whole("logger.audio", audio, 0)
    label_or_null("logger.name", name)
    for tag in tags:
        if not (isinstance(tag, str) and 0 < len(tag) <= LONGEST_TAG):
            raise choices("logger.tags", tag, f"strings of at most {LONGEST_TAG} characters")
    config = cast(Json, OmegaConf.to_container(run.cfg, resolve=True))
    options = {
        "project": project,
        "entity": entity,
        "id": run_id(run),
        "name": name or run.name,
        "group": str(run.cfg.sweep),
        "job_type": "train",
        "tags": [*dict.fromkeys([*list_tags(run.folder, run.cfg.get("overrides") or []), *tags])],
        "notes": notes or (config.get("ablation") or {}).get("question"),
        # the arm's name excludes the seed, because W&B groups an arm's runs by this name
        "config": {
            **plain_config(config),
            "identity": run.id,
            "arm": config.get("arm") or re.sub(r"(^|\+)seed-[^+]*$", "", run.name) or "default",
        },
        "dir": str(run.folder),
    }
    logger = RunLogger(run, artifacts, audio, options)
    experiment = logger.experiment
    if place := experiment.url or (experiment.offline and "offline: it stays in the run's folder"):
        print(f"W&B         {place}", flush=True)
    return logger


class RunLogger(WandbLogger):
    """Lightning's W&B logger, with the row number in metrics.csv as W&B's step.

    A resumed run can therefore send only the rows that W&B's server lacks. options: arguments of wandb.init
    """

    def __init__(self, run: Run, artifacts: Sequence[str], audio: int, options: Json) -> None:
        self.run, self.artifacts, self.audio, self.options = run, artifacts, audio, options
        self._results: list[Callable[[], None]] = []
        """Calls that log values that are not in metrics.csv."""
        self._is_lost = False
        super().__init__(experiment=self._begin())
        self.log_summary({RECORD: json.dumps(describe_folder(run))})

    def _begin(self, *, offline: bool = False) -> "wandb.Run":
        """Start the next part of the W&B run, and log the rows of metrics.csv that the W&B run lacks.

        An offline part contains all rows. Earlier unsent parts are marked as sent, because the new part replaces them.
        """
        earlier = unsynced(self.run.folder, self.options["id"])
        experiment = begin(**self.options, offline=offline, resume="allow")
        for file in earlier:
            file.with_suffix(SYNCED).touch()
        experiment.define_metric(STEP)
        experiment.define_metric("*", step_metric=STEP, step_sync=True)
        for name in self.run.cfg.data.get("validation") or []:
            for figure in FIGURES:
                experiment.define_metric(f"validation/{name}/{figure}", step_metric=STEP, step_sync=True, summary="min")
        rows = read_metrics(self.run.folder) if (self.run.folder / METRICS).exists() else []
        self._row = len(rows)
        for place, row in enumerate(rows):
            if place >= experiment.starting_step:
                values = {key: value for key, value in row.items() if key != "step" and value is not None}
                experiment.log({**in_percent(values), STEP: row["step"]}, step=place, commit=True)
        return experiment

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        if step is None:
            self._results.append(partial(self.log_metrics, metrics))
        self._log(in_percent(metrics), step, commit=True)
        self._row += 1

    def log_table(  # type: ignore[override]
        self,
        key: str,
        columns: list[str],
        data: list[list[str]],
        *,
        step: int | None = None,
        recordings: Sequence[Recording] = (),
    ) -> None:
        """Log a table at the step of the next metrics, because metrics.csv has no rows for tables."""
        import wandb

        if step is None:
            self._results.append(partial(self.log_table, key, columns, data, recordings=recordings))
        rows: list[list[Any]] = [[*row] for row in data]
        if self.audio and recordings:  # only the first rows of each set (first column) get audio
            columns, counts = [*columns, RECORDING], Counter[str]()
            for row, recording in zip(rows, recordings, strict=True):
                counts[row[0]] += 1
                row.append(_read_recording(recording) if counts[row[0]] <= self.audio else None)
        self._log({key: wandb.Table(columns=list(columns), data=rows)}, step, commit=False)

    def _log(self, values: Mapping[str, Any], step: int | None, *, commit: bool) -> None:
        """Log values, and remember a failure. Logging a table fails if W&B's server does not answer."""
        try:
            self.experiment.log({**values, **({} if step is None else {STEP: step})}, step=self._row, commit=commit)
        except refusals():
            self._is_lost = True

    def log_summary(self, values: Mapping[str, float | str]) -> None:
        self._results.append(partial(self.log_summary, values))
        self.experiment.summary.update(dict(values))

    def finish(self, exit_code: int) -> None:
        """End the W&B run with the exit code, because W&B would otherwise show a crashed run as finished.

        If the server does not answer, all data is saved in an offline part.
        """
        # do not wait for a server that has already failed to answer
        sent = not self._is_lost and (exit_code != 0 or self._send_artifacts())
        if not (end(self.experiment, exit_code) and sent):
            print("W&B has not received everything: its server does not answer", file=sys.stderr, flush=True)
            self._experiment, self._is_lost = self._begin(offline=True), False
            for log in [*self._results]:
                log()
            if exit_code == 0:
                self._send_artifacts()
            end(self.experiment, exit_code)
        if command := sync_command([self.run.folder]):
            print(f"W&B         later: {command}", flush=True)

    def _send_artifacts(self) -> bool:
        """Send the artifacts that exist, and return whether W&B accepted them."""
        try:
            for name in self.artifacts:
                if (path := self.run.folder / ARTIFACTS[name]).exists():
                    self.experiment.log_artifact(str(path), name=f"{self.experiment.id}-{name}", type=name)
        except refusals():
            return False
        return True


def _read_recording(recording: Recording) -> "wandb.Audio | None":
    """Return the audio of a recording, or None if its file can no longer be read."""
    import wandb

    path, offset, seconds, channel = recording
    try:
        return wandb.Audio(read(Path(path), offset, seconds, channel), sample_rate=SAMPLE_RATE)
    except AudioError:
        return None


def describe_folder(run: Run) -> Json:
    """Return the data that a comparison of W&B runs needs in addition to the config.

    - started, place: time of the run's first start, and its position among the sweep's runs
    - declared: number of runs that the sweep's first launch declared, and a hash of their ids; None if it declared none
    - speakers: for each set, the number of its speakers, and how many of them are also in the training set
    """
    first = declared(run.folder.parent)
    sets = read_data(run.folder).sets.items()
    return {
        "started": _read_start(run),
        "place": places(run.folder.parent).get(run.id),
        "declared": None if first is None else [len(first), evidence(first)],
        "speakers": {name: [set_.speakers, (set_.in_training or {}).get("speakers", 0)] for name, set_ in sets},
    }


def _read_start(run: Run) -> str:
    """Return the time of a run's first start, or an empty string if it has not started."""
    try:
        return str(read_environment(run.folder).started)
    except FileNotFoundError:
        return ""


def run_id(run: Run) -> str:
    """Return the run's id at W&B, a hash of the run id, the sweep and the time of the first start.

    A resumed run keeps its W&B id, and a run that is restarted from the beginning gets a new one.
    """
    return hashlib.sha256("\n".join([run.id, str(run.cfg.sweep), _read_start(run)]).encode()).hexdigest()[:8]
