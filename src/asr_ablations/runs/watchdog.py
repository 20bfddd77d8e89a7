"""No arm outlives its launcher, not even one that was killed."""

import os
import signal
import threading
import time

import psutil

LAUNCHER = "ASR_ABLATIONS_LAUNCHER"
"""Environment variable with process id and birth of the launcher."""
GRACE = 60.0
"""Seconds an arm has to write its checkpoint once it was told to stop."""


def announce_launcher() -> str:
    """What `follow_launcher` finds in the environment of an arm of this process."""
    process = psutil.Process()
    return f"{process.pid}:{process.create_time()}"


def follow_launcher() -> None:
    """Watch the launcher that the environment names, from a thread: when it is gone, ask this process to stop, and end
    it where that does not help. Nothing to do without one.
    """
    if (told := os.environ.get(LAUNCHER)) is None:
        return
    pid, _, born = told.partition(":")
    threading.Thread(target=_watch, args=(int(pid), float(born)), daemon=True, name="lifeline").start()


def _watch(pid: int, born: float) -> None:
    while _lives(pid, born):
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def _lives(pid: int, born: float) -> bool:
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - born) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
