"""W&B's mode: online where a login exists, else offline without a question; WANDB_MODE overrides both."""

import os
from typing import Literal, cast, get_args

from asr_ablations.tools.errors import choices

LOGGER = "asr_ablations.components.logger.wandb.wandb_logger"
"""Name of the logger in a config."""
Mode = Literal["online", "offline", "disabled", "shared"]
WITHOUT_SERVER = ("offline", "dryrun", "disabled")
"""Modes that need no server; dryrun is an older name."""


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
