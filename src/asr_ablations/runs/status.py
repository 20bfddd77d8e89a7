"""A run's state, and the reason why it ended."""

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
    """A run was stopped early because it is worse than other runs. The run can be continued later."""


class Diverged(Exception):  # noqa: N818
    """A run's loss is no longer finite. Divergence is a result, because the same config would diverge again.

    step: the first step with a loss that is not finite, counted from 1. reason: a description in one line.
    """

    exit_code = 1

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(step, reason)
        self.step, self.reason = step, reason

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class Fate:
    """A run's state, with a reason unless the run is done. diverged_at: first step whose loss was not finite."""

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
    """Return a run's state. If its recorded status is "running", its lease shows whether the process is alive."""
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
    """Return why a run is not done, in one line; None if it is done."""
    ended = fate_of(folder)
    return None if ended.state == "done" else ended.reason


def reason(error: BaseException) -> str:
    """Return in one line why a run ended. Lack of memory is always called "out of memory", because libraries differ."""
    if isinstance(error, (KeyboardInterrupt, Stopped)):
        return str(error) or "interrupted"
    message = " ".join(f"{type(error).__name__}: {error}".split())
    return f"out of memory: {message}" if is_lack_of_memory(error) else message
