"""The watchdog of a process that must not outlive the one that started it."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil


def when_gone(pid: int, started: float, then: Callable[[], None]) -> None:
    """Call `then` from a thread once this process has ended. started: its start by `start_of`: ids are reused."""

    def watch() -> None:
        while _is_alive(pid, started):
            time.sleep(0.5)
        then()

    threading.Thread(target=watch, daemon=True, name="watchdog").start()


def end_with(pid: int, started: float) -> None:
    """End this process at once when the other has ended, even if it was killed: nobody reads the results any more."""
    when_gone(pid, started, lambda: os._exit(1))


def start_of(pid: int) -> float:
    """When a process was started, in seconds: on Linux since the machine was. psutil adds the time of the start, which
    moves when the clock is stepped. Raises psutil.NoSuchProcess.
    """
    try:
        # the name in parentheses may hold anything; the start is the 22nd field, the 20th after the name
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (FileNotFoundError, ProcessLookupError):
        return float(psutil.Process(pid).create_time())


def _is_alive(pid: int, started: float) -> bool:
    try:
        return abs(start_of(pid) - started) < 1 and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except (OSError, psutil.AccessDenied):  # too many open files: that says nothing of the process
        return True
