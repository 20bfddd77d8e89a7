"""A run at Weights & Biases: its mode, its beginning and its end, whether or not W&B's server answers.

The mode is online with a login, else offline without a question; WANDB_MODE overrides both. W&B is imported in
functions only: commands read this module before there is anything to log.
"""

import netrc
import os
import ssl
import sys
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener, getproxies

from asr_ablations.runs.checkpoint import first_line
from asr_ablations.runs.identity import of_the_experiment, without_folder
from asr_ablations.runs.reader import UnreadableFileError, read_sweep
from asr_ablations.tools.files import quote_word
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.metrics import METRICS

if TYPE_CHECKING:
    import wandb

LOGGER = "asr_ablations.components.logger.wandb.wandb_logger"  # name of the logger in a config
Mode = Literal["online", "offline", "disabled", "shared"]
WITHOUT_SERVER = ("offline", "dryrun", "disabled")  # modes that need no server; dryrun is an older name
PATIENCE_FIRST = 15  # seconds in which W&B's server has to give any answer at all, before a run is begun there
PATIENCE = 30  # seconds in which a server that answers has to begin a run; W&B's own default is 90
PATIENCE_AT_END = 300
"""Seconds for W&B's server to receive everything after a run; WANDB_FINISH_TIMEOUT overrides it."""
SYNCED = ".wandb.synced"  # ending of W&B's own mark next to a file that `wandb sync` leaves out
RECORD = "record"  # the value of a run's summary with what a comparison by W&B needs of the run's folder, as JSON
LONGEST_TAG = 64  # characters of a tag, by W&B's own rule


def mode() -> Mode:
    """W&B's mode: WANDB_MODE, else online with a login, else offline. Raises UsageError for an unknown mode."""
    chosen = os.environ.get("WANDB_MODE")
    if not chosen:
        return "online" if _has_login() else "offline"
    if chosen not in (*get_args(Mode), "dryrun", "run"):  # the last two are older names
        raise choices("WANDB_MODE", chosen, get_args(Mode))
    return cast(Mode, chosen)


def refuse_mode(configs: Sequence[object]) -> None:
    """Raises UsageError for a mode that W&B does not have, if a config logs there: before any data is read."""
    if LOGGER in str(configs):
        mode()


def _has_login() -> bool:
    """Return whether there is an API key in the environment or in netrc; contacts no server."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai").split("//")[-1].split("/")[0].split(":")[0]
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def begin(*, offline: bool = False, resume: str | None = None, **options: object) -> "wandb.Run":
    """Begin a run of W&B's. If its server cannot be reached, the run goes on offline, which is said once.

    options: those of wandb.init; resume: as there, online only. Raises UsageError for what W&B refuses.
    """
    import wandb

    chosen = "offline" if offline else mode()
    if chosen in WITHOUT_SERVER:
        # W&B's service reports about itself to the same server, and waits 10 s at its end for one that is silent
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        resume = None
    try:
        settings = wandb.Settings(silent=True, console="off", init_timeout=PATIENCE, finish_timeout_raises=True)
        if "WANDB_FINISH_TIMEOUT" not in os.environ:
            settings.finish_timeout = PATIENCE_AT_END
        wandb.setup(wandb.Settings(silent=True))  # a run's own setting silences neither its login nor its end
        if chosen not in WITHOUT_SERVER and (reason := why_silent(PATIENCE_FIRST)) is not None:
            raise wandb.errors.CommError(reason)
        return wandb.init(**options, resume=resume, mode=chosen, settings=settings)  # type: ignore[arg-type]
    except wandb.errors.AuthenticationError as error:
        raise UsageError(f"W&B: {first_line(error)}; WANDB_MODE=offline logs without a login") from error
    except wandb.errors.CommError as error:
        go_offline(first_line(error), "this goes on offline")
        # W&B's service holds the id of a run that it could not begin for as long as it lives, and this run has that id.
        wandb.teardown()
        return begin(offline=True, **options)  # type: ignore[arg-type]
    except (wandb.errors.UsageError, ValueError) as error:
        raise _refused(error) from error


def go_offline(reason: str, consequence: str) -> None:
    """Say that W&B's server cannot be reached, and log offline from now on, in children too."""
    os.environ["WANDB_MODE"] = "offline"
    print(f"W&B cannot be reached ({reason}): {consequence}", file=sys.stderr, flush=True)


def why_silent(patience: float) -> str | None:
    """The reason if W&B's server does not answer within `patience` seconds: its client would try again all the time.

    Raises UsageError for an address and other settings that W&B refuses.
    """
    import wandb
    from wandb.sdk import wandb_setup

    try:
        settings = wandb_setup.singleton().settings  # W&B's files of settings may have an address and proxies, too
    except (wandb.errors.UsageError, ValueError) as error:
        raise _refused(error) from error
    proxies = {kind: proxy for kind in ("http", "https") if (proxy := getattr(settings, f"{kind}_proxy"))}
    opener = build_opener(ProxyHandler({**getproxies(), **proxies}))
    try:
        opener.open(f"{settings.base_url}/graphql", timeout=patience).close()
    except HTTPError:  # an answer
        return None
    except OSError as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLError):  # W&B's client may know a certificate that Python does not
            return None
        return f"{settings.base_url}: {getattr(reason, 'strerror', None) or reason}"
    except (HTTPException, ValueError):  # for W&B's client to judge
        return None
    return None


def _refused(error: Exception) -> UsageError:
    return UsageError(f"W&B refuses this: {' '.join(str(error).split())[:300]}")


def end(experiment: "wandb.Run", exit_code: int = 0) -> bool:
    """End a run of W&B's. Return whether its server has received everything; offline, whether the file is whole."""
    try:
        experiment.finish(exit_code=exit_code)
    except TimeoutError:
        return False
    return True


def unsynced(folder: Path, id_: str = "*") -> list[Path]:
    """W&B's files of offline parts in a run's folder that were not sent, the oldest first. id_: of one W&B run."""
    files = folder.glob(f"wandb/offline-run-*/run-{id_}.wandb")
    return sorted(file for file in files if not file.with_suffix(SYNCED).exists())


def sync_command(folders: Sequence[Path]) -> str | None:
    """The command that sends the offline parts of runs; None if there are none."""
    parts = [f"{quote_word(str(folder))}/wandb/offline-run-*" for folder in folders if unsynced(folder)]
    if len(parts) > 1 and len({folder.parent for folder in folders}) == 1:
        parts = [f"{quote_word(str(folders[0].parent))}/*/wandb/offline-run-*"]
    return f"wandb sync {' '.join(parts)}" if parts else None


def in_percent(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with rates in percent: those whose name ends in one, as final/test-clean/wer."""
    return {key: 100 * value if _is_rate(key) else value for key, value in values.items()}


def as_fractions(values: Mapping[str, Any]) -> dict[str, Any]:
    """The reverse of `in_percent`."""
    return {key: value / 100 if value is not None and _is_rate(key) else value for key, value in values.items()}


def _is_rate(key: str) -> bool:
    metric = METRICS.get(key.rpartition("/")[2])
    return metric is not None and metric.is_rate


def list_tags(folder: Path, overrides: Sequence[str]) -> list[str]:
    """The overrides of a run that its sweep varies, as far as W&B accepts them as tags; all of them outside a sweep."""
    try:
        arms = [arm["overrides"] for arm in read_sweep(folder.parent).get("arms", [])]
    except (FileNotFoundError, UnreadableFileError):
        arms = []
    shared = set.intersection(*map(set, arms)) if len(arms) > 1 else set()
    varied = map(without_folder, of_the_experiment(word for word in overrides if word not in shared))
    return [*dict.fromkeys(word for word in varied if len(word) <= LONGEST_TAG)]
