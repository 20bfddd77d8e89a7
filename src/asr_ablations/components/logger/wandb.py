"""Weights & Biases: online where a login exists, else offline without a question; WANDB_MODE overrides both."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, cast

from asr_ablations.runs.checkpoint import first_line
from asr_ablations.runs.folder import Run
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import Json

if TYPE_CHECKING:
    import wandb
    from pytorch_lightning.loggers import WandbLogger

PATIENCE = 30
"""Seconds in which W&B's server has to answer before a run; its own default is 90."""
Mode = Literal["online", "offline", "disabled", "shared"]


def wandb_logger(run: Run, *, project: str, entity: str | None) -> "WandbLogger":
    """A logger whose run has the id of the run's content, the group of its sweep, and its resolved config.

    Under a W&B agent the run belongs to the agent: id, project and entity come from its environment, and keys that the
    agent sets have its values in W&B's config. The folder's name keeps the id of the content.
    """
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
    experiment = begin(
        project=None if of_agent else project,
        entity=None if of_agent else entity,
        id=None if of_agent else run.id,
        name=run.name,
        group=str(run.cfg.sweep),
        config=config,
        dir=str(run.folder),
        resume="allow",
    )
    return WandbRunLogger(experiment=experiment)


def begin(**options: object) -> "wandb.Run":
    """A run of W&B's in the mode that is right here. Where its server cannot be reached the run goes on offline, which
    is said once; not under an agent, whose server has to know of it.

    options: those of wandb.init. Raises UsageError for a value or a login that W&B refuses.
    """
    import wandb

    settings = wandb.Settings(silent=True, console="off", init_timeout=PATIENCE)
    try:
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
