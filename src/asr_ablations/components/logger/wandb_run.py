"""The beginning and the end of a run at Weights & Biases, whether or not its server answers."""

import os
import sys
from typing import TYPE_CHECKING

from asr_ablations.components.logger.wandb_mode import Mode, mode
from asr_ablations.runs.checkpoint import first_line
from asr_ablations.tools.errors import UsageError

if TYPE_CHECKING:
    import wandb

PATIENCE = 30
"""Seconds in which W&B's server has to answer before a run; its own default is 90."""
PATIENCE_AT_END = 300
"""Seconds in which W&B's server has to have received everything after a run, artifacts included; W&B's own default
waits without end. WANDB_FINISH_TIMEOUT overrides it.
"""


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
