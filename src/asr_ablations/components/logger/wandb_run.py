"""The beginning and the end of a run at Weights & Biases, whether or not its server answers."""

import os
import ssl
import sys
import threading
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import OpenerDirector, ProxyHandler, build_opener, getproxies

from asr_ablations.components.logger.wandb_mode import WITHOUT_SERVER, mode
from asr_ablations.runs.checkpoint import first_line
from asr_ablations.tools.errors import UsageError

if TYPE_CHECKING:
    import wandb

PATIENCE_FIRST = 15
"""Seconds in which W&B's server has to give any answer at all, before a run is begun there."""
PATIENCE = 30
"""Seconds in which a server that answers has to begin a run; W&B's own default is 90."""
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
        chosen = "offline" if offline else mode()
        needs_server = chosen not in WITHOUT_SERVER
        if not needs_server:
            # W&B's service reports about itself to the same server, and waits 10 s at its end for one that is silent
            os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        settings = wandb.Settings(silent=True, console="off", init_timeout=PATIENCE, finish_timeout_raises=True)
        if "WANDB_FINISH_TIMEOUT" not in os.environ:
            settings.finish_timeout = PATIENCE_AT_END
        wandb.setup(wandb.Settings(silent=True))  # a run's own setting silences neither its login nor its end
        if needs_server and (reason := why_silent(PATIENCE_FIRST)) is not None:
            raise wandb.errors.CommError(reason)
        options["resume"] = resume if needs_server else offline_resume
        return wandb.init(**options, mode=chosen, settings=settings)  # type: ignore[arg-type]
    except wandb.errors.AuthenticationError as error:
        raise UsageError(f"W&B: {first_line(error)}; WANDB_MODE=offline logs without a login") from error
    except wandb.errors.CommError as error:
        if os.environ.get("WANDB_SWEEP_ID"):
            raise UsageError(f"W&B cannot be reached, and its agent needs it: {first_line(error)}") from error
        go_offline(first_line(error), "this goes on offline")
        # W&B's service holds the id of a run that it could not begin for as long as it lives, and this run has that id.
        wandb.teardown()
        return begin(offline=True, offline_resume=offline_resume, **options)  # type: ignore[arg-type]
    except (wandb.errors.UsageError, ValueError) as error:
        raise _refused(error) from error


def go_offline(reason: str, consequence: str) -> None:
    """Say that W&B's server cannot be reached. All that this process logs from then on is logged offline, and so is all
    that its children log.
    """
    os.environ["WANDB_MODE"] = "offline"
    print(f"W&B cannot be reached ({reason}): {consequence}", file=sys.stderr, flush=True)


def why_silent(patience: float) -> str | None:
    """Why W&B's server cannot be reached; None where it gives any answer within `patience` seconds. Its client would
    try again for all the time that a run may take to begin, whatever the reason.

    Raises UsageError for an address and for other settings that W&B refuses.
    """
    import wandb
    from wandb.sdk import wandb_setup

    try:
        settings = wandb_setup.singleton().settings  # W&B's files of settings may have an address and proxies, too
    except (wandb.errors.UsageError, ValueError) as error:
        raise _refused(error) from error
    own = {kind: proxy for kind in ("http", "https") if (proxy := getattr(settings, f"{kind}_proxy"))}
    opener = build_opener(ProxyHandler({**getproxies(), **own}))
    answers: list[str | None] = []
    # The look-up of a name has no time limit: the thread may be left behind.
    asking = threading.Thread(
        target=lambda: answers.append(_ask(opener, f"{settings.base_url}/graphql", patience)), daemon=True
    )
    asking.start()
    asking.join(patience)
    reason = answers[0] if answers else "timed out"
    return reason and f"{settings.base_url}: {reason}"


def _ask(opener: OpenerDirector, address: str, patience: float) -> str | None:
    """Why there is no answer; None where there is one, and where W&B's client has to judge."""
    try:
        opener.open(address, timeout=patience).close()
    except HTTPError:
        return None
    except OSError as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLError):  # W&B's client may know a certificate that Python does not
            return None
        return str(getattr(reason, "strerror", None) or reason)
    except (HTTPException, ValueError):
        return None
    return None


def _refused(error: Exception) -> UsageError:
    return UsageError(f"W&B refuses this: {' '.join(str(error).split())[:300]}")


def end(experiment: "wandb.Run", exit_code: int = 0) -> bool:
    """End a run of W&B's; whether its server has received everything (offline: whether the file is whole)."""
    try:
        experiment.finish(exit_code=exit_code)
    except TimeoutError:
        return False
    return True
