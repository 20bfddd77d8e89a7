"""The state of an arm while its sweep runs, and the message for how it ended."""

import signal
from dataclasses import dataclass
from pathlib import Path

from asr_ablations.runs.layout import STATUS
from asr_ablations.runs.lease import LEASE_HELD_EXIT_CODE
from asr_ablations.runs.reader import UnreadableFileError, read_progress
from asr_ablations.runs.status import DIVERGED, DONE, FAILED, status_of
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.tools.files import Json, write_json
from asr_ablations.tools.signals import STOPPED_EXIT_CODES

WAITING, QUEUED, STOPPED, ELSEWHERE = "waiting", "queued", "stopped", "elsewhere"
"""States that only a sweep knows, beside those of a run: DONE, DIVERGED, FAILED and RUNNING."""
REFUSED = 2
"""The exit code of an arm that its machine cannot run, such as one on a GPU where there is none."""
OOM_COUNTER = Path("/sys/fs/cgroup/memory.events")


@dataclass
class State:
    """One arm: waiting, queued (it was handed to a cluster, which has no machine for it yet), running, done, diverged,
    failed, stopped (it can be continued), or elsewhere (another launcher runs it).

    reason: why it has this status; skipped: it had its result before the sweep started; not_before: the monotonic time
    before which it is not tried again.
    """

    arm: FrozenArm
    status: str = WAITING
    reason: str = ""
    skipped: bool = False
    not_before: float = 0.0

    @property
    def ended(self) -> bool:
        return self.status in (DONE, DIVERGED, FAILED, STOPPED)

    def progress(self) -> Json:
        """The latest epoch, loss and WER that the arm recorded; empty before the first record."""
        try:
            return read_progress(self.arm.folder)
        except (FileNotFoundError, UnreadableFileError):
            return {}

    def finish(self, exit_code: int, kill_reason: str | None, memory_kills: int) -> None:
        """Set status and reason of an arm whose process has ended.

        kill_reason: why the launcher killed the process, if it did; memory_kills: how many processes the system killed
        for lack of memory while it ran.
        """
        recorded = status_of(self.arm.folder) or {}
        if exit_code == LEASE_HELD_EXIT_CODE:
            self.status, self.reason = ELSEWHERE, "another launcher is running it"
        elif kill_reason is None and recorded.get("status") == FAILED and DIVERGED in recorded:
            self.status, self.reason = DIVERGED, recorded["reason"]
        elif exit_code == 0:
            self.status = DONE
        elif kill_reason is not None:
            self.status, self.reason = FAILED, kill_reason
            self._record(recorded)
        elif exit_code in STOPPED_EXIT_CODES or _was_interrupted(recorded):
            self.status, self.reason = STOPPED, "stopped; it can be continued"
        elif recorded.get("status") == FAILED:
            self.status, self.reason = FAILED, recorded["reason"]
        else:
            refused = _last_error(self.arm.log) if exit_code == REFUSED else None
            self.status, self.reason = FAILED, refused or _cause_of_death(exit_code, memory_kills)
            self._record(recorded)

    def _record(self, recorded: Json) -> None:
        """Write the failure into the run's status, which the process could not do itself."""
        write_json(self.arm.folder / STATUS, {**recorded, "status": FAILED, "reason": self.reason})


def memory_kills() -> int:
    """How many processes the system has killed for lack of memory in this container."""
    try:
        lines = OOM_COUNTER.read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def _was_interrupted(recorded: Json) -> bool:
    """Whether a run recorded that it was interrupted: with several ranks the exit code is torchrun's own."""
    return recorded.get("status") == FAILED and str(recorded.get("reason", "")).startswith("interrupted")


def _last_error(log: Path) -> str | None:
    """The last line of an arm's output that says why it did not begin."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((line.removeprefix("error: ") for line in reversed(lines) if line.startswith("error: ")), None)


def _cause_of_death(exit_code: int, memory_kills: int) -> str:
    number = -exit_code if exit_code < 0 else exit_code - 128
    if number == signal.SIGKILL and memory_kills:
        return "out of memory: killed by the system"
    if number in set(signal.Signals):
        return f"killed by {signal.Signals(number).name}"
    return f"exit code {exit_code}"
