"""The watchdog of an arm: none outlives its launcher, not even one that was killed."""

import os
import signal
import threading
import time

import psutil

LAUNCHER = "ASR_ABLATIONS_LAUNCHER"
"""Environment variable with the launcher's process id and the time at which it was started."""
GRACE = 60.0
"""Seconds an arm has to write its checkpoint once it has to stop."""


def announce_launcher() -> str:
    """What `follow_launcher` reads from the environment of an arm of this process."""
    process = psutil.Process()
    return f"{process.pid}:{process.create_time()}"


def follow_launcher() -> None:
    """Watch the launcher that the environment names, from a thread: when it is gone, ask this process to stop, and end
    it where that does not help. Nothing to do without one.
    """
    if (launcher := os.environ.get(LAUNCHER)) is None:
        return
    pid, _, started = launcher.partition(":")
    threading.Thread(target=_watch, args=(int(pid), float(started)), daemon=True, name="watchdog").start()


def _watch(pid: int, started: float) -> None:
    while _is_alive(pid, started):
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def _is_alive(pid: int, started: float) -> bool:
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
