"""Weights & Biases: online where a login exists, else offline without a question; WANDB_MODE overrides both."""

import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from asr_ablations.components.logger.plain_config import plain_config
from asr_ablations.components.logger.wandb_run import RECORDING, begin_part, end, log_row, sync_command
from asr_ablations.runs.folder import Run
from asr_ablations.runs.identity import of_the_experiment, without_folder
from asr_ablations.runs.layout import BEST, CHECKPOINTS, CONFIG, UTTERANCES
from asr_ablations.runs.reader import read_data, read_environment
from asr_ablations.runs.sweep_history import declared, evidence, places
from asr_ablations.runs.wandb_rows import Logged
from asr_ablations.tools.checks import a_list, label_or_null, whole
from asr_ablations.tools.errors import refusals
from asr_verdicts.errors import choices
from asr_verdicts.files import Json

if TYPE_CHECKING:
    import wandb
    from pytorch_lightning.loggers import WandbLogger

    from asr_ablations.training.contracts import Recording

LONGEST_TAG = 64
"""Characters of a tag, by W&B's own rule."""
ARTIFACTS = {"config": CONFIG, "utterances": UTTERANCES, "best": f"{CHECKPOINTS}/{BEST}"}
"""Files that can be sent, by the names in logger.artifacts."""


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
) -> "WandbLogger":
    """A logger whose run has an id of the run's folder, the group of its sweep, and its choices as a plain config.

    Under a W&B agent the run belongs to the agent: id, project and entity come from its environment, and keys that the
    agent sets have its values in W&B's config. artifacts: names of ARTIFACTS, sent when the run is done; audio: of so
    many examples of each set; name: by default that of the run's folder; tags: beside what was typed; notes: by default
    the question of the sweep file.

    Raises UsageError for an artifact that there is not, and for a name that is none.
    """
    from omegaconf import OmegaConf
    from pytorch_lightning.loggers import WandbLogger  # imported late: `typed_tags` needs no torch

    sendable, tags = (
        [] if value is None else a_list(key, value)
        for key, value in (("logger.artifacts", artifacts), ("logger.tags", tags))
    )
    for key, value in (("logger.project", project), ("logger.entity", entity)):
        if label_or_null(key, value) is not None and not isinstance(value, str):
            raise choices(key, value, f"a name; a number is one as {key}=\"'{value}'\"")
    for artifact in sendable:
        if artifact not in ARTIFACTS:
            raise choices("logger.artifacts", artifact, list(ARTIFACTS))
    whole("logger.audio", audio, 0)
    label_or_null("logger.name", name)
    for tag in tags:
        if not (isinstance(tag, str) and 0 < len(tag) <= LONGEST_TAG):
            raise choices("logger.tags", tag, f"texts of at most {LONGEST_TAG} characters")
    config = cast(Json, OmegaConf.to_container(run.cfg, resolve=True))
    logged = Logged(run.folder)
    of_agent = bool(os.environ.get("WANDB_SWEEP_ID"))
    options = {
        "project": None if of_agent else project,
        "entity": None if of_agent else entity,
        "id": None if of_agent else run_id(run),
        "name": name or run.name,
        "group": str(run.cfg.sweep),
        "job_type": "train",
        "tags": [*dict.fromkeys([*typed_tags(config), *tags])],
        "notes": notes or (config.get("ablation") or {}).get("question"),
        "config": {**plain_config(config), **of_the_folder(run), "arm": config.get("arm") or arm_of(run.name)},
        "dir": str(run.folder),
    }
    validation = list(config["data"].get("validation") or [])
    kept: dict[str, float | str] = {}
    lost: list[int] = []

    class WandbRunLogger(WandbLogger):
        """Ends W&B's run itself: otherwise W&B shows a crashed run as finished. A resumed run logs what it had not."""

        def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
            row = logged.new(metrics, step)
            if row:
                self._log(len(logged.rows), logged.add(row, step))

        def log_table(  # type: ignore[override]
            self,
            key: str,
            columns: list[str],
            data: list[list[str]],
            *,
            step: int | None = None,
            recordings: "Sequence[Recording]" = (),
        ) -> None:
            if logged.new({key: 0.0}, step):
                table = with_recordings(columns, data, recordings, audio) if audio and recordings else (columns, data)
                self._log(len(logged.rows), logged.add({}, step, {key: table}))

        def _log(self, place: int, row: Json) -> None:
            if not log_row(self.experiment, place, row):
                lost.append(place)

        def log_summary(self, values: Mapping[str, float | str]) -> None:
            kept.update(values)
            self.experiment.summary.update(dict(values))

        def finish(self, exit_code: int) -> None:
            """End W&B's run; where its server does not answer, leave all of it in a file that is sent later."""
            if not self._end(exit_code):
                print("W&B has not received everything: its server does not answer", file=sys.stderr, flush=True)
                self._experiment = begin_part({**options, "id": self.experiment.id}, logged, validation, offline=True)
                self.experiment.summary.update(kept)
                lost.clear()  # this part has every row
                self._end(exit_code)
            logged.part(begins=False)
            if offline := sync_command([run.folder]):
                print(f"W&B         later: {offline}", flush=True)

        def _end(self, exit_code: int) -> bool:
            """Return whether W&B has everything; a server that gave no answer before is not waited for again."""
            sent = not lost and (exit_code != 0 or send(self.experiment, run, sendable))
            return end(self.experiment, exit_code) and sent

    experiment = begin_part(options, logged, validation)
    if experiment.url:
        print(f"W&B         {experiment.url}", flush=True)
    return WandbRunLogger(experiment=experiment)


def with_recordings(
    columns: list[str], data: list[list[str]], recordings: "Sequence[Recording]", audio: int
) -> tuple[list[str], list[list[Any]]]:
    """The table with a column of recordings, of the first `audio` rows of each set, whose name is in the first one."""
    counts: Counter[str] = Counter()
    rows: list[list[Any]] = []
    for row, recording in zip(data, recordings, strict=True):
        counts[row[0]] += 1
        rows.append([*row, recording._asdict() if counts[row[0]] <= audio else None])
    return [*columns, RECORDING], rows


def of_the_folder(run: Run) -> Json:
    """The values that a comparison by W&B needs beside the config: the run's identity, its start, its place among the
    runs of its sweep, the declaration of the sweep, and how many speakers of each set are in training.
    """
    first = declared(run.folder.parent)
    sets = read_data(run.folder).sets.items()
    return {
        "identity": run.id,
        "started": _started(run),
        "place": places(run.folder.parent).get(run.id),
        "declared": None if first is None else [len(first), evidence(first)],
        "speakers": {name: [set_.speakers, (set_.in_training or {}).get("speakers", 0)] for name, set_ in sets},
    }


def arm_of(name: str) -> str:
    """The name of a run without its seed, which stands last: one value for all seeds of an arm, to group by."""
    return re.sub(r"(^|\+)seed-[^+]*$", "", name) or "default"


def _started(run: Run) -> str:
    """The first start of a run's folder; empty where it has not started."""
    try:
        return str(read_environment(run.folder).started)
    except FileNotFoundError:
        return ""


def run_id(run: Run) -> str:
    """An id of the run's folder: of its content, its sweep, and the time of its first start. A run that is resumed has
    the same, and one that starts anew another.
    """
    return hashlib.sha256("\n".join([run.id, str(run.cfg.sweep), _started(run)]).encode()).hexdigest()[:8]


def typed_tags(config: Json) -> list[str]:
    """The overrides of the experiment that W&B accepts as tags."""
    typed = map(without_folder, of_the_experiment(str(word) for word in config.get("overrides") or []))
    return [*dict.fromkeys(word for word in typed if len(word) <= LONGEST_TAG)]


def send(experiment: "wandb.Run", run: Run, artifacts: Sequence[str]) -> bool:
    """Send files of the run as artifacts, as far as they are there; whether W&B took them."""
    import wandb

    try:
        for name in artifacts:
            path = run.folder / ARTIFACTS[name]
            if path.exists():
                artifact = wandb.Artifact(f"{experiment.id}-{name}", type=name)
                artifact.add_file(str(path))
                experiment.log_artifact(artifact)
    except refusals():
        return False
    return True
