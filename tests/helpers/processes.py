"""What tests of processes wait for and look at."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

T = TypeVar("T")


def wait_for(condition: Callable[[], T], seconds: float = 1200) -> T:
    """The first true result of the condition. The time limit is long because machines are loaded; it is not tested."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, f"the condition was not met within {seconds:g} seconds"
        time.sleep(0.05)
    return result


def living_in(folder: Path, program: str = "") -> list[psutil.Process]:
    """Every running process whose current folder this is: one that was started there, and all that it has started.
    program: what the name of its program has in it.
    """
    processes = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder) and process.status() != psutil.STATUS_ZOMBIE and program in process.name():
                processes.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return processes


def hold(process: psutil.Process) -> None:
    """Suspend it, and return once each of its threads stands still: one that waits for a disk or for a core takes a
    signal to stop later than one to end that is sent after it.
    """
    process.suspend()
    threads = Path(f"/proc/{process.pid}/task")
    wait_for(lambda: all(_state(thread) == "T" for thread in threads.iterdir()))


def _state(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(") ")[2][0]


def pending(process: psutil.Process) -> set[int]:
    """Signals that have been sent to a process as a whole, and that it has not yet handled."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    mask = int(next(line for line in lines if line.startswith("ShdPnd:")).split()[1], 16)
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1}
