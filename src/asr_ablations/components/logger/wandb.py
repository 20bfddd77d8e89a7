"""Weights & Biases: online where a login exists, else offline without a question; WANDB_MODE overrides both."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, cast

from asr_ablations.runs.folder import Run
from asr_ablations.tools.files import Json

if TYPE_CHECKING:
    from pytorch_lightning.loggers import WandbLogger

Mode = Literal["online", "offline", "disabled", "shared"]


def wandb_logger(run: Run, *, project: str, entity: str | None) -> "WandbLogger":
    """A logger whose run has the id of the run's content, the group of its sweep, and its resolved config.

    Under a W&B agent the run belongs to the agent: id, project and entity come from its environment, and keys that the
    agent sets have its values in W&B's config. The folder's name keeps the id of the content.
    """
    import wandb
    from omegaconf import OmegaConf
    from pytorch_lightning.loggers import WandbLogger  # imported late: compare needs `mode` without torch

    class WandbRunLogger(WandbLogger):
        """Ends W&B's run itself: otherwise W&B shows a crashed run as finished."""

        def log_summary(self, values: Mapping[str, int | str]) -> None:
            self.experiment.summary.update(dict(values))

        def finish(self, exit_code: int) -> None:
            self.experiment.finish(exit_code=exit_code)

    config = cast(Json, OmegaConf.to_container(run.cfg, resolve=True))
    of_agent = bool(os.environ.get("WANDB_SWEEP_ID"))
    experiment = wandb.init(
        project=None if of_agent else project,
        entity=None if of_agent else entity,
        id=None if of_agent else run.id,
        name=run.name,
        group=str(run.cfg.sweep),
        config=config,
        dir=str(run.folder),
        resume="allow",
        mode=mode(),
        settings=wandb.Settings(silent=True, console="off"),
    )
    return WandbRunLogger(experiment=experiment)


def mode() -> Mode:
    """W&B's mode: WANDB_MODE where it is set, else online with a login and offline without one."""
    return cast(Mode, os.environ.get("WANDB_MODE")) or ("online" if _logged_in() else "offline")


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
