"""The state in which a run ended, and the reason."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from asr_ablations.runs.lease import owner
from asr_ablations.runs.reader import Status, UnreadableFileError, read_status
from asr_ablations.tools.errors import Stopped, is_lack_of_memory
from asr_verdicts.record import UnfinishedState

RUNNING, DONE, FAILED, PRUNED = "running", "done", "failed", "pruned"
DIVERGED = "diverged"  # key in status.json and in logged rows for the step at which a run diverged

State = Literal["done", "diverged"] | UnfinishedState  # the first two are RESULTS
RESULTS = ("done", "diverged")


class Pruned(Exception):  # noqa: N818
    """A run was stopped early because it is worse than other runs. It can be continued."""


class Diverged(Exception):  # noqa: N818
    """The loss of a run is no longer finite. This is a result, because a run with the same content would diverge again.

    step: the first such step, counted from 1. reason: the reason in one line.
    """

    exit_code = 1

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(step, reason)
        self.step, self.reason = step, reason

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class Fate:
    """The state of a run, with a reason unless it is done. diverged_at: the first step whose loss was not finite."""

    state: State
    reason: str = ""
    diverged_at: int | None = None


def status_of(folder: Path) -> Status | None:
    """Return the status that a run has recorded in this folder; None if no run has started."""
    try:
        return read_status(folder)
    except FileNotFoundError:
        return None


def fate_of(folder: Path) -> Fate:
    """Return the state of the run in this folder."""
    try:
        return fate(status_of(folder), folder)
    except UnreadableFileError as error:
        return Fate("damaged", f"damaged: {error.path.name} cannot be read")


def fate(status: Status | None, folder: Path) -> Fate:
    """Return the state of a run with this status. If it says running, the lease shows whether its process is alive."""
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
    """Return the reason in one line why a run is not done; None if it is done."""
    ended = fate_of(folder)
    return None if ended.state == "done" else ended.reason


def reason(error: BaseException) -> str:
    """Return the reason for a run's end in one line. It names lack of memory, which libraries report in many ways."""
    if isinstance(error, (KeyboardInterrupt, Stopped)):
        return str(error) or "interrupted"
    message = " ".join(f"{type(error).__name__}: {error}".split())
    return f"out of memory: {message}" if is_lack_of_memory(error) else message
