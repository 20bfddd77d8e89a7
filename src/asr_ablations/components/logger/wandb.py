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
from asr_ablations.runs.metrics import FIGURES
from asr_ablations.runs.reader import read_environment
from asr_ablations.tools.errors import UsageError, choices
from asr_ablations.tools.files import Json

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
Mode = Literal["online", "offline", "disabled", "shared"]


def wandb_logger(run: Run, *, project: str, entity: str | None, artifacts: list[str]) -> "WandbLogger":
    """A logger whose run has an id of the run's folder, the group of its sweep, and its choices as a plain config.

    Under a W&B agent the run belongs to the agent: id, project and entity come from its environment, and keys that the
    agent sets have its values in W&B's config. artifacts: names of ARTIFACTS, sent when the run is done.

    Raises UsageError for an artifact that there is not.
    """
    from omegaconf import OmegaConf
    from pytorch_lightning.loggers import WandbLogger  # imported late: compare needs `mode` without torch

    for name in artifacts:
        if name not in ARTIFACTS:
            raise choices("logger.artifacts", name, list(ARTIFACTS))
    config = cast(Json, OmegaConf.to_container(run.cfg, resolve=True))
    logged = Logged(run.folder)

    class WandbRunLogger(WandbLogger):
        """Ends W&B's run itself: otherwise W&B shows a crashed run as finished. A resumed run logs what it had not."""

        def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
            row = logged.new(metrics, step)
            if row:
                self.experiment.log(row if step is None else {**row, STEP: step}, **logged.place())
                logged.add(row, step)

        def log_summary(self, values: Mapping[str, int | str]) -> None:
            self.experiment.summary.update(dict(values))

        def finish(self, exit_code: int) -> None:
            if exit_code == 0:
                send(self.experiment, run, artifacts)
            self.experiment.finish(exit_code=exit_code)
            if offline := sync_command([run.folder]):
                print(f"W&B         later: {offline}", flush=True)

    of_agent = bool(os.environ.get("WANDB_SWEEP_ID"))
    ablation = config.get("ablation") or {}
    experiment = begin(
        project=None if of_agent else project,
        entity=None if of_agent else entity,
        id=None if of_agent else run_id(run),
        name=run.name,
        group=str(run.cfg.sweep),
        job_type="train",
        tags=tags(config),
        notes=ablation.get("question"),
        config={**plain_config(config), "identity": run.id},
        dir=str(run.folder),
        resume="allow",
    )
    define_metrics(experiment, list(config["data"].get("validation") or []))
    if experiment.url:
        print(f"W&B         {experiment.url}", flush=True)
    return WandbRunLogger(experiment=experiment)


def run_id(run: Run) -> str:
    """An id of the run's folder: of its content, its sweep, and the time of its first start. A run that is resumed has
    the same, and one that starts anew another.
    """
    try:
        started = str(read_environment(run.folder).get("started"))
    except FileNotFoundError:
        started = ""
    return hashlib.sha256("\n".join([run.id, str(run.cfg.sweep), started]).encode()).hexdigest()[:8]


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


def send(experiment: "wandb.Run", run: Run, artifacts: Sequence[str]) -> None:
    """Send files of the run as artifacts, as far as they are there."""
    import wandb

    for name in artifacts:
        path = run.folder / ARTIFACTS[name]
        if path.exists():
            artifact = wandb.Artifact(f"{run.id}-{name}", type=name)
            artifact.add_file(str(path))
            experiment.log_artifact(artifact)


def sync_command(folders: Sequence[Path]) -> str | None:
    """The command that sends the offline parts of runs; None where there are none."""
    parts = [f"{folder}/wandb/offline-run-*" for folder in folders if any(folder.glob("wandb/offline-run-*"))]
    if len(parts) > 1 and len({folder.parent for folder in folders}) == 1:
        parts = [f"{folders[0].parent}/*/wandb/offline-run-*"]
    return f"wandb sync {' '.join(parts)}" if parts else None


def begin(**options: object) -> "wandb.Run":
    """A run of W&B's in the mode that is right here. Where its server cannot be reached the run goes on offline, which
    is said once; not under an agent, whose server has to know of it.

    options: those of wandb.init. Raises UsageError for a value or a login that W&B refuses.
    """
    import wandb

    try:
        settings = wandb.Settings(silent=True, console="off", init_timeout=PATIENCE)
        return wandb.init(**options, mode=mode(), settings=settings)  # type: ignore[arg-type]
    except wandb.errors.AuthenticationError as error:
        raise UsageError(f"W&B: {first_line(error)}; WANDB_MODE=offline logs without a login") from error
    except wandb.errors.CommError as error:
        if os.environ.get("WANDB_SWEEP_ID"):
            raise UsageError(f"W&B cannot be reached, and its agent needs it: {first_line(error)}") from error
        print(f"W&B cannot be reached ({first_line(error)}): goes on offline", file=sys.stderr, flush=True)
        print(f"later: wandb sync {options.get('dir')}/wandb/offline-run-*", file=sys.stderr, flush=True)
        return wandb.init(**options, mode="offline", settings=settings)  # type: ignore[arg-type]
    except (wandb.errors.UsageError, ValueError) as error:
        raise UsageError(f"W&B refuses this: {' '.join(str(error).split())[:300]}") from error


def mode() -> Mode:
    """W&B's mode: WANDB_MODE where it is set, else online with a login and offline without one. Raises UsageError for a
    mode that W&B has not.
    """
    asked = os.environ.get("WANDB_MODE")
    if not asked:
        return "online" if _logged_in() else "offline"
    if asked not in (*get_args(Mode), "dryrun", "run"):  # the last two are older names
        raise choices("WANDB_MODE", asked, get_args(Mode))
    return cast(Mode, asked)


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
