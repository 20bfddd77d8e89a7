"""The end of a run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from asr_ablations.runs.lease import owner
from asr_ablations.runs.reader import Status, UnreadableFileError, read_status
from asr_ablations.tools.errors import Stopped, is_lack_of_memory
from asr_verdicts.record import UnfinishedState

RUNNING, DONE, FAILED, PRUNED = "running", "done", "failed", "pruned"
DIVERGED = "diverged"  # key of a failed run's status, and of a logged row: the step at which the run diverged

State = Literal["done", "diverged"] | UnfinishedState  # the state of a run; the first two are RESULTS
RESULTS = ("done", "diverged")


class Pruned(Exception):  # noqa: N818
    """The run was ended because it does worse than others: neither done nor failed, and it can continue."""


class Diverged(Exception):  # noqa: N818
    """The loss of a run is no finite number any more. That is its result: the same content diverges again.

    step: the first such step, counted from 1; reason: in one line.
    """

    exit_code = 1

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(step, reason)
        self.step, self.reason = step, reason

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class Fate:
    """The end of a run, the reason if it is not done, and the step at which it diverged, if it did."""

    state: State
    reason: str = ""
    diverged_at: int | None = None


def status_of(folder: Path) -> Status | None:
    """The status that a run recorded; None where none has begun."""
    try:
        return read_status(folder)
    except FileNotFoundError:
        return None


def fate_of(folder: Path) -> Fate:
    """The end of the run in this folder."""
    try:
        status = status_of(folder)
    except UnreadableFileError as error:
        return Fate("damaged", f"damaged: {error.path.name} cannot be read")
    return fate(status, folder)


def fate(status: Status | None, folder: Path) -> Fate:
    """The end of a run by its status; the lease of the folder shows if a running one is still at work."""
    if status is None:
        return Fate("missing", "did not start")
    name, why = status.status, status.reason or "no reason given"
    if name == DONE:
        return Fate("done")
    if name == RUNNING:
        holder = owner(folder)
        return Fate("running", f"still running: {holder}") if holder else Fate("interrupted", "ended without a message")
    if name == PRUNED:
        return Fate("pruned", f"pruned: {why}")
    if name == FAILED and (step := status.diverged) is not None:
        return Fate("diverged", why, step)
    if name == FAILED and why.startswith("interrupted"):
        return Fate("interrupted", why)
    return Fate("failed", f"{name}: {why}")


def why_unfinished(folder: Path) -> str | None:
    """The reason for missing error rates, in one line; None for a run that is done."""
    ended = fate_of(folder)
    return None if ended.state == "done" else ended.reason


def reason(error: BaseException) -> str:
    """The reason for the end of a run, in one line. Lack of memory is named as such: it comes under a dozen names."""
    if isinstance(error, (KeyboardInterrupt, Stopped)):
        return str(error) or "interrupted"
    message = " ".join(f"{type(error).__name__}: {error}".split())
    return f"out of memory: {message}" if is_lack_of_memory(error) else message
