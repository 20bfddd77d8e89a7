"""Start and end runs on Weights & Biases, even if its server does not answer.

Runs are online if the user is logged in, and offline otherwise; WANDB_MODE overrides this choice. Functions import
wandb themselves, because commands load this module even if they log nothing.
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

from asr_ablations.runs.identity import of_the_experiment, shortened
from asr_ablations.runs.reader import UnreadableFileError, first_line, read_sweep
from asr_ablations.tools.files import quote_word
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.metrics import METRICS

if TYPE_CHECKING:
    import wandb

LOGGER = "asr_ablations.components.logger.wandb.wandb_logger"  # _target_ of the W&B logger in a config
Mode = Literal["online", "offline", "disabled", "shared"]
WITHOUT_SERVER = ("offline", "disabled")  # modes that do not contact a server
PATIENCE_FIRST = 15  # seconds to wait for the first answer from W&B's server
PATIENCE = 30  # seconds to wait for the server to start a run; W&B's default is 90
PATIENCE_AT_END = 300  # seconds to wait until the server has received all data; WANDB_FINISH_TIMEOUT overrides it
SYNCED = ".wandb.synced"  # suffix of the marker that `wandb sync` writes next to a file that it has sent
RECORD = "record"  # summary key of a W&B run; its value is JSON with the run's data that comparisons need
LONGEST_TAG = 64  # maximum number of characters that W&B accepts in a tag


def mode() -> Mode:
    """Return WANDB_MODE if set, else online if logged in, else offline. Raises UsageError if WANDB_MODE is invalid."""
    chosen = os.environ.get("WANDB_MODE")
    if not chosen:
        return "online" if _has_login() else "offline"
    if chosen not in get_args(Mode):
        raise choices("WANDB_MODE", chosen, get_args(Mode))
    return cast(Mode, chosen)


def refuse_mode(configs: Sequence[object]) -> None:
    """Raise UsageError if one of the configs logs to W&B and WANDB_MODE is invalid."""
    if LOGGER in str(configs):
        mode()


def _has_login() -> bool:
    """Return whether the environment or the netrc file has an API key for W&B."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    with suppress(OSError, netrc.NetrcParseError):
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    return False


def begin(*, offline: bool = False, resume: str | None = None, **options: object) -> "wandb.Run":
    """Start a W&B run. If the server cannot be reached, print a message and start the run offline.

    options, resume: arguments of wandb.init; offline runs ignore `resume`. Raises UsageError if W&B refuses them.
    """
    import wandb

    chosen = "offline" if offline else mode()
    if chosen in WITHOUT_SERVER:
        # W&B's service sends its error reports to the server, and waits 10 s for an answer when it ends
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        resume = None
    try:
        settings = wandb.Settings(silent=True, console="off", init_timeout=PATIENCE, finish_timeout_raises=True)
        settings.finish_timeout = float(os.environ.get("WANDB_FINISH_TIMEOUT", PATIENCE_AT_END))
        wandb.setup(wandb.Settings(silent=True))  # the run's `silent` does not cover login and shutdown
        if chosen not in WITHOUT_SERVER and (reason := why_silent(PATIENCE_FIRST)) is not None:
            raise wandb.errors.CommError(reason)
        return wandb.init(**options, resume=resume, mode=chosen, settings=settings)  # type: ignore[arg-type]
    except wandb.errors.AuthenticationError as error:
        raise UsageError(f"W&B: {first_line(error)}; WANDB_MODE=offline logs without a login") from error
    except wandb.errors.CommError as error:
        go_offline(first_line(error), "this run continues offline")
        # W&B's service reserves the id of the failed run until the service ends, and the offline run needs the same id
        wandb.teardown()
        return begin(offline=True, **options)  # type: ignore[arg-type]
    except (wandb.errors.UsageError, ValueError) as error:
        raise _refused(error) from error


def go_offline(reason: str, consequence: str) -> None:
    """Print that W&B's server cannot be reached, and make this process and its children log offline from now on."""
    os.environ["WANDB_MODE"] = "offline"
    print(f"W&B cannot be reached ({reason}): {consequence}", file=sys.stderr, flush=True)


def why_silent(patience: float) -> str | None:
    """Return why W&B's server does not answer within `patience` seconds; None if it does.

    W&B's client itself would retry forever. Raises UsageError for an address or setting that W&B refuses.
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
        # any answer suffices, and W&B's client may accept certificates that Python refuses
        if not isinstance(error, HTTPError) and not isinstance(reason, ssl.SSLError):
            return f"{settings.base_url}: {getattr(reason, 'strerror', None) or reason}"
    except (HTTPException, ValueError):  # W&B's client handles invalid answers and addresses
        pass
    return None


def _refused(error: Exception) -> UsageError:
    return UsageError(f"W&B refuses this: {' '.join(str(error).split())[:300]}")


def end(experiment: "wandb.Run", exit_code: int = 0) -> bool:
    """End a W&B run. Return whether all data has reached the server or, for an offline run, the local file."""
    try:
        experiment.finish(exit_code=exit_code)
    except TimeoutError:
        return False
    return True


def unsynced(folder: Path, id_: str = "*") -> list[Path]:
    """Return the unsent files of offline W&B runs in a run folder, oldest first. id_: a W&B run id, or * for all."""
    files = folder.glob(f"wandb/offline-run-*/run-{id_}.wandb")
    return sorted(file for file in files if not file.with_suffix(SYNCED).exists())


def sync_command(folders: Sequence[Path]) -> str | None:
    """Return the command that sends the offline W&B runs in these folders; None if there are none."""
    parts = [f"{quote_word(str(folder))}/wandb/offline-run-*" for folder in folders if unsynced(folder)]
    if len(parts) > 1 and len({folder.parent for folder in folders}) == 1:
        parts = [f"{quote_word(str(folders[0].parent))}/*/wandb/offline-run-*"]
    return f"wandb sync {' '.join(parts)}" if parts else None


def in_percent(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the error rates to percent. Their keys end with a metric's name, as in final/test-clean/wer."""
    return {key: 100 * value if _is_rate(key) else value for key, value in values.items()}


def as_fractions(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the error rates among the values from percent to fractions, the reverse of `in_percent`."""
    return {key: value / 100 if value is not None and _is_rate(key) else value for key, value in values.items()}


def _is_rate(key: str) -> bool:
    metric = METRICS.get(key.rpartition("/")[2])
    return metric is not None and metric.is_rate


def list_tags(folder: Path, overrides: Sequence[str]) -> list[str]:
    """Return the overrides that vary in a run's sweep (all, outside a sweep) and are short enough for W&B tags."""
    try:
        arms = [arm["overrides"] for arm in read_sweep(folder.parent).get("arms", [])]
    except (FileNotFoundError, UnreadableFileError):
        arms = []
    shared = set.intersection(*map(set, arms)) if len(arms) > 1 else set()
    varied = map(shortened, of_the_experiment(word for word in overrides if word not in shared))
    return [*dict.fromkeys(word for word in varied if len(word) <= LONGEST_TAG)]
