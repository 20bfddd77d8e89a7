"""The watchdog of a process that must not outlive the one that started it."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil


def when_gone(pid: int, started: float, then: Callable[[], None]) -> None:
    """Call `then` from a thread once this process has ended. started: as `start_of` has it: ids are reused."""

    def watch() -> None:
        while _is_alive(pid, started):
            time.sleep(0.5)
        then()

    threading.Thread(target=watch, daemon=True, name="watchdog").start()


def end_with(pid: int, started: float) -> None:
    """End this process at once when the other has ended, even if it was killed: nobody reads the results any more."""
    when_gone(pid, started, lambda: os._exit(1))


def start_of(pid: int) -> float:
    """The start of a process, to tell it from a later one with its id: in clock ticks since boot where /proc says it,
    since the time of day is moved when the clock is set. Raises psutil.NoSuchProcess.
    """
    return _state(pid)[1]


def _state(pid: int) -> tuple[str, float]:
    """The state of a process, by its letter or name, and its start. Raises psutil.NoSuchProcess."""
    if not Path("/proc/self/stat").exists():
        process = psutil.Process(pid)
        return process.status(), process.create_time()
    try:
        # the name may hold spaces and brackets
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError as error:
        raise psutil.NoSuchProcess(pid) from error
    return words[0], float(words[19])


def _is_alive(pid: int, started: float) -> bool:
    try:
        state, start = _state(pid)
    except psutil.NoSuchProcess:
        return False
    return start == started and state not in ("Z", "X", psutil.STATUS_ZOMBIE)
