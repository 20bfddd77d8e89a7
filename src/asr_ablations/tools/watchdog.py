"""The watchdog of a process that must not outlive the one that started it."""

import os
import threading
import time
from collections.abc import Callable

import psutil


def when_gone(pid: int, started: float, then: Callable[[], None]) -> None:
    """Call `then` from a thread once this process has ended. started: its start, as psutil has it: ids are reused."""

    def watch() -> None:
        while _is_alive(pid, started):
            time.sleep(0.5)
        then()

    threading.Thread(target=watch, daemon=True, name="watchdog").start()


def end_with(pid: int, started: float) -> None:
    """End this process at once when the other has ended, even if it was killed: nobody reads the results any more."""
    when_gone(pid, started, lambda: os._exit(1))


def start_of(pid: int) -> float:
    """The time at which a process was started."""
    return float(psutil.Process(pid).create_time())


def _is_alive(pid: int, started: float) -> bool:
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
