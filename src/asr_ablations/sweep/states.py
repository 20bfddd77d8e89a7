"""What is known of an arm while its sweep runs, and in which words its end is told."""

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asr_ablations.runs.layout import STATUS
from asr_ablations.runs.lease import LEASE_HELD_EXIT_CODE
from asr_ablations.runs.reader import UnreadableFileError, read_progress
from asr_ablations.runs.status import status_of
from asr_ablations.sweep.arm import Arm
from asr_ablations.tools.files import write_json

WAITING, RUNNING, DONE, FAILED, STOPPED, ELSEWHERE = "waiting", "running", "done", "failed", "stopped", "elsewhere"
OOM_COUNTER = Path("/sys/fs/cgroup/memory.events")


@dataclass
class State:
    """One arm: waiting, running, done, failed, stopped (it can go on), or elsewhere (another launcher is at it)."""

    arm: Arm
    status: str = WAITING
    reason: str = ""
    skipped: bool = False
    not_before: float = 0.0

    @property
    def ended(self) -> bool:
        return self.status in (DONE, FAILED, STOPPED)

    def progress(self) -> dict[str, Any]:
        """What the arm told last of epoch, loss and WER; empty before it has."""
        try:
            return read_progress(self.arm.folder)
        except (FileNotFoundError, UnreadableFileError):
            return {}

    def finish(self, exit_code: int, killed_for: str | None, memory_kills: int) -> None:
        """Say what became of an arm whose process has ended. killed_for: why we ended it, if we did; memory_kills: how
        many processes the system ended for want of memory while it ran.
        """
        told = status_of(self.arm.folder) or {}
        if exit_code == LEASE_HELD_EXIT_CODE:
            self.status, self.reason = ELSEWHERE, "another launcher is at it"
        elif exit_code == 0:
            self.status = DONE
        elif killed_for is not None:
            self.status, self.reason = FAILED, killed_for
            self._record(told)
        elif exit_code in (128 + signal.SIGINT, 128 + signal.SIGTERM) or _interrupted(told):
            self.status, self.reason = STOPPED, "stopped; it can go on"
        elif told.get("status") == FAILED:
            self.status, self.reason = FAILED, told["reason"]
        else:
            self.status, self.reason = FAILED, _death(exit_code, memory_kills)
            self._record(told)

    def _record(self, told: dict[str, Any]) -> None:
        """The process could not say it itself."""
        write_json(self.arm.folder / STATUS, {**told, "status": FAILED, "reason": self.reason})


def memory_kills() -> int:
    """Processes that the system has ended for want of memory, in this container."""
    try:
        lines = OOM_COUNTER.read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def _interrupted(told: dict[str, Any]) -> bool:
    """Of several ranks the exit code is torchrun's own."""
    return told.get("status") == FAILED and str(told.get("reason", "")).startswith("interrupted")


def _death(exit_code: int, memory_kills: int) -> str:
    number = -exit_code if exit_code < 0 else exit_code - 128
    if number == signal.SIGKILL and memory_kills:
        return "out of memory: ended by the system"
    if number in set(signal.Signals):
        return f"ended by {signal.Signals(number).name}"
    return f"exit code {exit_code}"
