"""What tests of processes wait for and look at."""

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


def living_in(folder: Path) -> list[psutil.Process]:
    """Every running process whose current folder this is: one that was started there, and all that it has started."""
    processes = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return processes
