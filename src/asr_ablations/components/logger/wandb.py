"""Weights & Biases: online where a login exists, else offline without a question; WANDB_MODE overrides both."""

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from asr_ablations.config.plain import plain_config
from asr_ablations.runs.checkpoint import first_line
from asr_ablations.runs.folder import Run
from asr_ablations.runs.identity import of_the_experiment
from asr_ablations.runs.layout import BEST, CHECKPOINTS, CONFIG, UTTERANCES
from asr_ablations.runs.logged import Logged
from asr_ablations.runs.looks import declared, evidence
from asr_ablations.runs.metrics import FIGURES
from asr_ablations.runs.reader import read_environment
from asr_ablations.tools.checks import label_or_null
from asr_ablations.tools.errors import UsageError, choices
from asr_ablations.tools.files import Json
from asr_ablations.tools.wandb_errors import refusals

if TYPE_CHECKING:
    import wandb
    from pytorch_lightning.loggers import WandbLogger

STEP = "trainer/global_step"
LONGEST_TAG = 64
"""Characters of a tag, by W&B's own rule."""
ARTIFACTS = {"config": CONFIG, "utterances": UTTERANCES, "best": f"{CHECKPOINTS}/{BEST}"}
"""What can be sent, by the names in logger.artifacts."""
PATIENCE = 30
"""Seconds in which W&B's server has to answer before a run; its own default is 90."""
PATIENCE_AT_END = 300
"""Seconds in which W&B's server has to have received everything after a run, artifacts included; W&B's own default
waits without end. WANDB_FINISH_TIMEOUT overrides it.
"""
SYNCED = ".wandb.synced"
"""Ending of W&B's own mark beside a file that `wandb sync` leaves out."""
Mode = Literal["online", "offline", "disabled", "shared"]


def wandb_logger(run: Run, *, project: str, entity: str | None, artifacts: list[str]) -> "WandbLogger":
    """A logger whose run has an id of the run's folder, the group of its sweep, and its choices as a plain config.

    Under a W&B agent the run belongs to the agent: id, project and entity come from its environment, and keys that the
    agent sets have its values in W&B's config. artifacts: names of ARTIFACTS, sent when the run is done.

    Raises UsageError for an artifact that there is not, and for a name that is none.
    """
    from omegaconf import OmegaConf
    from pytorch_lightning.loggers import WandbLogger  # imported late: compare needs `mode` without torch

    for key, value in (("logger.project", project), ("logger.entity", entity)):
        if label_or_null(key, value) is not None and not isinstance(value, str):
            raise choices(key, value, f"a name; a number is one as {key}=\"'{value}'\"")
    for name in artifacts:
        if name not in ARTIFACTS:
            raise choices("logger.artifacts", name, list(ARTIFACTS))
    config = cast(Json, OmegaConf.to_container(run.cfg, resolve=True))
    logged = Logged(run.folder)
    of_agent = bool(os.environ.get("WANDB_SWEEP_ID"))
    options = {
        "project": None if of_agent else project,
        "entity": None if of_agent else entity,
        "id": None if of_agent else run_id(run),
        "name": run.name,
        "group": str(run.cfg.sweep),
        "job_type": "train",
        "tags": tags(config),
        "notes": (config.get("ablation") or {}).get("question"),
        "config": {**plain_config(config), **of_the_folder(run)},
        "dir": str(run.folder),
    }
    validation = list(config["data"].get("validation") or [])
    kept: dict[str, int | str] = {}
    lost: list[int] = []

    class WandbRunLogger(WandbLogger):
        """Ends W&B's run itself: otherwise W&B shows a crashed run as finished. A resumed run logs what it had not."""

        def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
            row = logged.new(metrics, step)
            if row:
                self._log(len(logged.rows), logged.add(row, step))

        def log_table(  # type: ignore[override]
            self, key: str, columns: list[str], data: list[list[str]], *, step: int | None = None
        ) -> None:
            if logged.new({key: 0.0}, step):
                self._log(len(logged.rows), logged.add({}, step, {key: [columns, data]}))

        def _log(self, place: int, row: Json) -> None:
            if not log_row(self.experiment, place, row):
                lost.append(place)

        def log_summary(self, values: Mapping[str, int | str]) -> None:
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
            """Whether W&B has everything; a server that has not answered before is not waited for once more."""
            sent = not lost and (exit_code != 0 or send(self.experiment, run, artifacts))
            return end(self.experiment, exit_code) and sent

    experiment = begin_part(options, logged, validation)
    if experiment.url:
        print(f"W&B         {experiment.url}", flush=True)
    return WandbRunLogger(experiment=experiment)


def begin_part(options: Json, logged: Logged, validation: Sequence[object], *, offline: bool = False) -> "wandb.Run":
    """Begin a part of a training's run: what one attempt logs. Rows that W&B's server lacks are logged again:
    the last ones of a run that was killed are in no file of W&B's.

    options: of wandb.init; validation: names of the sets; offline: whatever the mode, and with every row.
    """
    folder = Path(options["dir"])
    earlier = unsynced(folder, str(options["id"]))
    cut = logged.cut or offline
    experiment = begin(**options, offline=offline, resume="allow", offline_resume=None if cut else "allow")
    define_metrics(experiment, validation)
    # Offline, what the server has is not known: where it may lack something, the run begins anew, with everything.
    behind = 0 if cut else len(logged.rows)
    first = behind if experiment.offline else experiment.starting_step
    if cut or not experiment.offline:  # this part has all that the earlier ones have, and the server has not
        for file in earlier:
            file.with_suffix(SYNCED).touch()
    for place in range(first, len(logged.rows)):
        log_row(experiment, place, logged.rows[place])
    logged.part(begins=True)
    return experiment


def log_row(experiment: "wandb.Run", place: int, row: Json) -> bool:
    """Log a row at its place, which is W&B's step, with the time at which it was logged first; whether W&B took it: a
    table is an artifact, for which its server has to answer.
    """
    import wandb

    tables = {key: wandb.Table(columns=columns, data=data) for key, (columns, data) in row["tables"].items()}
    step = {} if row["step"] is None else {STEP: row["step"]}
    try:
        experiment.log({**row["values"], **tables, **step, "_timestamp": row["time"]}, step=place, commit=True)
    except refusals():
        return False
    return True


def of_the_folder(run: Run) -> Json:
    """What a comparison by W&B needs beside the config: the run's identity, its start, what its sweep had declared."""
    first = declared(run.folder.parent)
    return {
        "identity": run.id,
        "started": _started(run),
        "declared": None if first is None else [len(first), evidence(first)],
    }


def _started(run: Run) -> str:
    """The first start of a run's folder; empty where it has not started."""
    try:
        return str(read_environment(run.folder).get("started"))
    except FileNotFoundError:
        return ""


def run_id(run: Run) -> str:
    """An id of the run's folder: of its content, its sweep, and the time of its first start. A run that is resumed has
    the same, and one that starts anew another.
    """
    return hashlib.sha256("\n".join([run.id, str(run.cfg.sweep), _started(run)]).encode()).hexdigest()[:8]


def tags(config: Json) -> list[str]:
    """What the user typed of the experiment, as far as W&B takes it for a tag."""
    typed = of_the_experiment(str(word) for word in config.get("overrides") or [])
    return [*dict.fromkeys(word for word in typed if len(word) <= LONGEST_TAG)]


def define_metrics(experiment: "wandb.Run", validation: Sequence[object]) -> None:
    """Every metric is drawn over the trainer's step; the summary has the lowest error rates and losses."""
    experiment.define_metric(STEP)
    experiment.define_metric("*", step_metric=STEP, step_sync=True)
    for name in validation:
        for figure in FIGURES:
            experiment.define_metric(f"validation/{name}/{figure}", step_metric=STEP, step_sync=True, summary="min")


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


def unsynced(folder: Path, id_: str = "*") -> list[Path]:
    """W&B's files of offline parts in a run's folder that were not sent, the oldest first. id_: of one W&B run."""
    files = folder.glob(f"wandb/offline-run-*/run-{id_}.wandb")
    return sorted(file for file in files if not file.with_suffix(SYNCED).exists())


def sync_command(folders: Sequence[Path]) -> str | None:
    """The command that sends the offline parts of runs; None where there are none."""
    parts = [f"{folder}/wandb/offline-run-*" for folder in folders if unsynced(folder)]
    if len(parts) > 1 and len({folder.parent for folder in folders}) == 1:
        parts = [f"{folders[0].parent}/*/wandb/offline-run-*"]
    return f"wandb sync {' '.join(parts)}" if parts else None


def begin(
    *, offline: bool = False, resume: str | None = None, offline_resume: str | None = None, **options: object
) -> "wandb.Run":
    """A run of W&B's in the mode that is right here. Where its server cannot be reached the run goes on offline, which
    is said once; not under an agent, whose server has to know of it.

    options: those of wandb.init; offline_resume: in place of `resume`, offline. Raises UsageError for a value or a
    login that W&B refuses.
    """
    import wandb

    try:
        settings = wandb.Settings(silent=True, console="off", init_timeout=PATIENCE, finish_timeout_raises=True)
        if "WANDB_FINISH_TIMEOUT" not in os.environ:
            settings.finish_timeout = PATIENCE_AT_END
        chosen: Mode = "offline" if offline else mode()
        wandb.setup(wandb.Settings(silent=True))  # a run's own setting silences neither its login nor its end
        options["resume"] = offline_resume if chosen == "offline" else resume
        return wandb.init(**options, mode=chosen, settings=settings)  # type: ignore[arg-type]
    except wandb.errors.AuthenticationError as error:
        raise UsageError(f"W&B: {first_line(error)}; WANDB_MODE=offline logs without a login") from error
    except wandb.errors.CommError as error:
        if os.environ.get("WANDB_SWEEP_ID"):
            raise UsageError(f"W&B cannot be reached, and its agent needs it: {first_line(error)}") from error
        print(f"W&B cannot be reached ({first_line(error)}): goes on offline", file=sys.stderr, flush=True)
        print(f"later: wandb sync {options.get('dir')}/wandb/offline-run-*", file=sys.stderr, flush=True)
        options["resume"] = offline_resume
        return wandb.init(**options, mode="offline", settings=settings)  # type: ignore[arg-type]
    except (wandb.errors.UsageError, ValueError) as error:
        raise UsageError(f"W&B refuses this: {' '.join(str(error).split())[:300]}") from error


def end(experiment: "wandb.Run", exit_code: int = 0) -> bool:
    """End a run of W&B's; whether its server has received everything (offline: whether the file is whole)."""
    try:
        experiment.finish(exit_code=exit_code)
    except TimeoutError:
        return False
    return True


def mode() -> Mode:
    """W&B's mode: WANDB_MODE where it is set, else online with a login and offline without one. Raises UsageError for a
    mode that W&B has not.
    """
    chosen = os.environ.get("WANDB_MODE")
    if not chosen:
        return "online" if _logged_in() else "offline"
    if chosen not in (*get_args(Mode), "dryrun", "run"):  # the last two are older names
        raise choices("WANDB_MODE", chosen, get_args(Mode))
    return cast(Mode, chosen)


def _logged_in() -> bool:
    """Whether there is an API key in the environment or in netrc; contacts no server."""
    import netrc

    if os.environ.get("WANDB_API_KEY"):
        return True
    host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai").split("//")[-1].split("/")[0].split(":")[0]
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False
