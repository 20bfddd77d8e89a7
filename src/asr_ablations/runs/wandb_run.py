"""A run at Weights & Biases: its mode, start and end, even if W&B's server does not answer.

The mode is online with a login, and otherwise offline, without asking; WANDB_MODE overrides both. Functions import W&B
when needed, because commands load this module before there is anything to log.
"""

import netrc
import os
import ssl
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener, getproxies

from asr_ablations.runs.checkpoint import first_line
from asr_ablations.runs.identity import of_the_experiment, without_folder
from asr_ablations.runs.reader import UnreadableFileError, read_sweep
from asr_ablations.tools.files import quote_word
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.metrics import METRICS

if TYPE_CHECKING:
    import wandb

LOGGER = "asr_ablations.components.logger.wandb.wandb_logger"  # the logger's name in a config
Mode = Literal["online", "offline", "disabled", "shared"]
WITHOUT_SERVER = ("offline", "disabled")  # modes without a server
PATIENCE_FIRST = 15  # seconds for W&B's server to answer at all before a run starts
PATIENCE = 30  # seconds for an answering server to start a run; W&B's default is 90
PATIENCE_AT_END = 300
"""Seconds for W&B's server to receive all data after a run; WANDB_FINISH_TIMEOUT overrides it."""
SYNCED = ".wandb.synced"  # ending of W&B's mark next to a file that `wandb sync` skips
RECORD = "record"  # key in a run's summary: the data from the run's folder for comparisons by W&B, as JSON
LONGEST_TAG = 64  # W&B's limit for the characters of a tag


def mode() -> Mode:
    """Return W&B's mode: WANDB_MODE, else online with a login, else offline. Raises UsageError for unknown modes."""
    chosen = os.environ.get("WANDB_MODE")
    if not chosen:
        return "online" if _has_login() else "offline"
    if chosen not in get_args(Mode):
        raise choices("WANDB_MODE", chosen, get_args(Mode))
    return cast(Mode, chosen)


def refuse_mode(configs: Sequence[object]) -> None:
    """Raise UsageError for a mode unknown to W&B if a config logs there, before any data is read."""
    if LOGGER in str(configs):
        mode()


def _has_login() -> bool:
    """Return whether the environment or netrc has an API key, without contacting a server."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    with suppress(OSError, netrc.NetrcParseError):
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    return False


def begin(*, offline: bool = False, resume: str | None = None, **options: object) -> "wandb.Run":
    """Start a W&B run. If the server cannot be reached, it continues offline with one message.

    options: for wandb.init. resume: likewise, online only. Raises UsageError if W&B refuses the options.
    """
    import wandb

    chosen = "offline" if offline else mode()
    if chosen in WITHOUT_SERVER:
        # W&B's service reports to the same server about itself, and waits 10 s at its end for an answer
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        resume = None
    try:
        settings = wandb.Settings(silent=True, console="off", init_timeout=PATIENCE, finish_timeout_raises=True)
        settings.finish_timeout = float(os.environ.get("WANDB_FINISH_TIMEOUT", PATIENCE_AT_END))
        wandb.setup(wandb.Settings(silent=True))  # a run's own setting does not silence its login and end
        if chosen not in WITHOUT_SERVER and (reason := why_silent(PATIENCE_FIRST)) is not None:
            raise wandb.errors.CommError(reason)
        return wandb.init(**options, resume=resume, mode=chosen, settings=settings)  # type: ignore[arg-type]
    except wandb.errors.AuthenticationError as error:
        raise UsageError(f"W&B: {first_line(error)}; WANDB_MODE=offline logs without a login") from error
    except wandb.errors.CommError as error:
        go_offline(first_line(error), "this run continues offline")
        # W&B's service reserves the id of a run that it could not start until it ends, and this run needs that id
        wandb.teardown()
        return begin(offline=True, **options)  # type: ignore[arg-type]
    except (wandb.errors.UsageError, ValueError) as error:
        raise _refused(error) from error


def go_offline(reason: str, consequence: str) -> None:
    """Print that W&B's server cannot be reached, and log offline from now on, also in child processes."""
    os.environ["WANDB_MODE"] = "offline"
    print(f"W&B cannot be reached ({reason}): {consequence}", file=sys.stderr, flush=True)


def why_silent(patience: float) -> str | None:
    """Return the reason if W&B's server does not answer within `patience` seconds; its client would retry forever.

    Raises UsageError for an address or setting that W&B refuses.
    """
    import wandb
    from wandb.sdk import wandb_setup

    try:
        settings = wandb_setup.singleton().settings  # W&B's settings files may contain an address and proxies
    except (wandb.errors.UsageError, ValueError) as error:
        raise _refused(error) from error
    proxies = {kind: proxy for kind in ("http", "https") if (proxy := getattr(settings, f"{kind}_proxy"))}
    opener = build_opener(ProxyHandler({**getproxies(), **proxies}))
    try:
        opener.open(f"{settings.base_url}/graphql", timeout=patience).close()
    except OSError as error:
        reason = getattr(error, "reason", error)
        # any answer will do, and W&B's client may know a certificate that Python does not know
        if not isinstance(error, HTTPError) and not isinstance(reason, ssl.SSLError):
            return f"{settings.base_url}: {getattr(reason, 'strerror', None) or reason}"
    except (HTTPException, ValueError):  # left to W&B's client
        pass
    return None


def _refused(error: Exception) -> UsageError:
    return UsageError(f"W&B refuses this: {' '.join(str(error).split())[:300]}")


def end(experiment: "wandb.Run", exit_code: int = 0) -> bool:
    """End a W&B run. Return whether the server has received everything, or offline, whether the file is complete."""
    try:
        experiment.finish(exit_code=exit_code)
    except TimeoutError:
        return False
    return True


def unsynced(folder: Path, id_: str = "*") -> list[Path]:
    """Return W&B's unsent offline files in a run's folder, oldest first. id_: of one W&B run."""
    files = folder.glob(f"wandb/offline-run-*/run-{id_}.wandb")
    return sorted(file for file in files if not file.with_suffix(SYNCED).exists())


def sync_command(folders: Sequence[Path]) -> str | None:
    """Return the command that sends the offline parts of runs; None if there are none."""
    parts = [f"{quote_word(str(folder))}/wandb/offline-run-*" for folder in folders if unsynced(folder)]
    if len(parts) > 1 and len({folder.parent for folder in folders}) == 1:
        parts = [f"{quote_word(str(folders[0].parent))}/*/wandb/offline-run-*"]
    return f"wandb sync {' '.join(parts)}" if parts else None


def in_percent(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with rates in percent. Names of rates end with the metric, such as final/test-clean/wer."""
    return {key: 100 * value if _is_rate(key) else value for key, value in values.items()}


def as_fractions(values: Mapping[str, Any]) -> dict[str, Any]:
    """Reverse `in_percent`."""
    return {key: value / 100 if value is not None and _is_rate(key) else value for key, value in values.items()}


def _is_rate(key: str) -> bool:
    metric = METRICS.get(key.rpartition("/")[2])
    return metric is not None and metric.is_rate


def list_tags(folder: Path, overrides: Sequence[str]) -> list[str]:
    """Return the overrides varied in a run's sweep that W&B accepts as tags; outside a sweep, all of them."""
    try:
        arms = [arm["overrides"] for arm in read_sweep(folder.parent).get("arms", [])]
    except (FileNotFoundError, UnreadableFileError):
        arms = []
    shared = set.intersection(*map(set, arms)) if len(arms) > 1 else set()
    varied = map(without_folder, of_the_experiment(word for word in overrides if word not in shared))
    return [*dict.fromkeys(word for word in varied if len(word) <= LONGEST_TAG)]
