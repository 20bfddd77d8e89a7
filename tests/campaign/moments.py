"""Moments of a command by what it has done to a folder: after the k-th change seen there, and a random delay."""

import os
import time
from collections.abc import Callable
from pathlib import Path

INTERVAL = 0.002
"""Seconds between two looks."""
State = dict[str, tuple[int, int, int]]


def state(folder: Path) -> State:
    """Size, time of change and inode of everything below a folder."""
    seen: State = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            try:
                status = os.stat(path, follow_symlinks=False)
            except FileNotFoundError:
                continue
            seen[path] = (status.st_size, status.st_mtime_ns, status.st_ino)
    return seen


def wait_for_changes(folder: Path, number: float, running: Callable[[], bool]) -> int:
    """Wait until so many changes were seen, or the command has ended; how many were seen. Changes of one path between
    two looks are one, so a command shows fewer where the machine is busy.
    """
    before, changes = state(folder), 0
    while changes < number and running():
        time.sleep(INTERVAL)
        now = state(folder)
        changes += sum(before.get(path) != now.get(path) for path in before.keys() | now.keys())
        before = now
    return changes
