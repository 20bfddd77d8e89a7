"""The status of a run and the reason for its end."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from asr_ablations.runs.lease import owner
from asr_ablations.runs.reader import Status, UnreadableFileError, read_status
from asr_ablations.tools.errors import Stopped, is_lack_of_memory
from asr_verdicts.record import UnfinishedState

RUNNING, DONE, FAILED, PRUNED = "running", "done", "failed", "pruned"
DIVERGED = "diverged"  # key in a failed run's status and in a logged row: the step at which the run diverged

State = Literal["done", "diverged"] | UnfinishedState  # the first two are RESULTS
RESULTS = ("done", "diverged")


class Pruned(Exception):  # noqa: N818
    """The run was ended because it is worse than others. It is neither done nor failed, and it can be continued."""


class Diverged(Exception):  # noqa: N818
    """The loss is no longer finite. This is the run's result, because the same content would diverge again.

    step: the first such step, counted from 1. reason: one line.
    """

    exit_code = 1

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(step, reason)
        self.step, self.reason = step, reason

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class Fate:
    """The end of a run: its state, the reason unless done, and the step at which it diverged."""

    state: State
    reason: str = ""
    diverged_at: int | None = None


def status_of(folder: Path) -> Status | None:
    """Return the status that a run recorded; None if none has started."""
    try:
        return read_status(folder)
    except FileNotFoundError:
        return None


def fate_of(folder: Path) -> Fate:
    """Determine how the run in this folder ended."""
    try:
        return fate(status_of(folder), folder)
    except UnreadableFileError as error:
        return Fate("damaged", f"damaged: {error.path.name} cannot be read")


def fate(status: Status | None, folder: Path) -> Fate:
    """Determine how a run ended from its status; for a running one, the folder's lease shows if its process lives."""
    if status is None:
        return Fate("missing", "did not start")
    name, why = status.status, status.reason or "no reason given"
    if name == RUNNING:
        holder = owner(folder)
        return Fate("running", f"still running: {holder}") if holder else Fate("interrupted", "ended without a message")
    if name == FAILED and status.diverged is not None:
        return Fate("diverged", why, status.diverged)
    if name == FAILED and why.startswith("interrupted"):
        return Fate("interrupted", why)
    if name == DONE:
        return Fate("done")
    return Fate("pruned" if name == PRUNED else "failed", f"{name}: {why}")


def why_unfinished(folder: Path) -> str | None:
    """Return the reason for missing error rates in one line; None if the run is done."""
    ended = fate_of(folder)
    return None if ended.state == "done" else ended.reason


def reason(error: BaseException) -> str:
    """Return the reason for a run's end in one line. Lack of memory, which has many names, is called that."""
    if isinstance(error, (KeyboardInterrupt, Stopped)):
        return str(error) or "interrupted"
    message = " ".join(f"{type(error).__name__}: {error}".split())
    return f"out of memory: {message}" if is_lack_of_memory(error) else message
