"""A run at Weights & Biases: its mode, its beginning and end, and its parts, whether or not its server answers.

The mode is online where a login exists, else offline without a question; WANDB_MODE overrides both. A training's run is
logged in parts: each attempt logs one, and logs again the rows that the server has not received. W&B is imported in
functions only: reports and comparisons read this module.
"""

import os
import ssl
import sys
import threading
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args
from urllib.error import HTTPError
from urllib.request import OpenerDirector, ProxyHandler, build_opener, getproxies

from asr_ablations import SAMPLE_RATE
from asr_ablations.runs.checkpoint import first_line
from asr_ablations.runs.metrics_files import FIGURES
from asr_ablations.runs.wandb_rows import Logged
from asr_ablations.tools.errors import refusals
from asr_ablations.tools.files import quote_word
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import Json

if TYPE_CHECKING:
    import wandb

LOGGER = "asr_ablations.components.logger.wandb.wandb_logger"
"""Name of the logger in a config."""
Mode = Literal["online", "offline", "disabled", "shared"]
WITHOUT_SERVER = ("offline", "dryrun", "disabled")
"""Modes that need no server; dryrun is an older name."""
PATIENCE_FIRST = 15
"""Seconds in which W&B's server has to give any answer at all, before a run is begun there."""
PATIENCE = 30
"""Seconds in which a server that answers has to begin a run; W&B's own default is 90."""
PATIENCE_AT_END = 300
"""Seconds in which W&B's server has to have received everything after a run, artifacts included; W&B's own default
waits without end. WANDB_FINISH_TIMEOUT overrides it.
"""
STEP = "trainer/global_step"
RECORDING = "recording"
"""The last column of a table that can be heard."""
SYNCED = ".wandb.synced"
"""Ending of W&B's own mark beside a file that `wandb sync` leaves out."""


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


def refuse_mode(configs: Sequence[object]) -> None:
    """Raises UsageError for a mode that W&B has not, if one of the configs logs there: before any data is read."""
    if LOGGER in str(configs):
        mode()


def _logged_in() -> bool:
    """Return whether there is an API key in the environment or in netrc; contacts no server."""
    import netrc

    if os.environ.get("WANDB_API_KEY"):
        return True
    host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai").split("//")[-1].split("/")[0].split(":")[0]
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


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
    """The reason why W&B's server cannot be reached, or None if it answers within `patience` seconds. Its client would
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
    """The reason for no answer; None if there is an answer, or if W&B's client has to judge."""
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
    logged.part(begins=True, project=None if experiment.offline else experiment.project_url)
    return experiment


def define_metrics(experiment: "wandb.Run", validation: Sequence[object]) -> None:
    """Every metric is drawn over the trainer's step; the summary has the lowest error rates and losses."""
    experiment.define_metric(STEP)
    experiment.define_metric("*", step_metric=STEP, step_sync=True)
    for name in validation:
        for figure in FIGURES:
            experiment.define_metric(f"validation/{name}/{figure}", step_metric=STEP, step_sync=True, summary="min")


def log_row(experiment: "wandb.Run", place: int, row: Json) -> bool:
    """Log a row at its place, which is W&B's step, with the time at which it was logged first; whether W&B took it: a
    table is an artifact, for which its server has to answer.
    """
    import wandb

    tables = {
        key: wandb.Table(columns=columns, data=_heard(columns, data)) for key, (columns, data) in row["tables"].items()
    }
    step = {} if row["step"] is None else {STEP: row["step"]}
    try:
        experiment.log({**row["values"], **tables, **step, "_timestamp": row["time"]}, step=place, commit=True)
    except refusals():
        return False
    return True


def _heard(columns: Sequence[str], data: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The rows of a table with the recordings that they name; None for one that cannot be read any more."""
    if RECORDING not in columns:
        return [list(row) for row in data]
    return [[*row[:-1], None if row[-1] is None else _audio(**row[-1])] for row in data]


def _audio(path: str, offset: float, seconds: float, channel: int) -> "wandb.Audio | None":
    import wandb

    from asr_ablations.data.audio import AudioError, read

    try:
        return wandb.Audio(read(Path(path), offset, seconds, channel), sample_rate=SAMPLE_RATE)
    except AudioError:
        return None


def unsynced(folder: Path, id_: str = "*") -> list[Path]:
    """W&B's files of offline parts in a run's folder that were not sent, the oldest first. id_: of one W&B run."""
    files = folder.glob(f"wandb/offline-run-*/run-{id_}.wandb")
    return sorted(file for file in files if not file.with_suffix(SYNCED).exists())


def sync_command(folders: Sequence[Path]) -> str | None:
    """The command that sends the offline parts of runs; None where there are none."""
    parts = [f"{quote_word(str(folder))}/wandb/offline-run-*" for folder in folders if unsynced(folder)]
    if len(parts) > 1 and len({folder.parent for folder in folders}) == 1:
        parts = [f"{quote_word(str(folders[0].parent))}/*/wandb/offline-run-*"]
    return f"wandb sync {' '.join(parts)}" if parts else None
