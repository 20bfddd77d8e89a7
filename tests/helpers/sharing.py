"""What several processes that share the tests make once for all of them."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def common_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder that is the same in all processes of this run of the tests, and no other run's."""
    base = factory.getbasetemp()
    common = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = common / f"common-{name}"
    folder.mkdir(exist_ok=True)
    return folder


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Path]) -> Path:
    """What `make` leaves in such a folder, and returns a path of; who comes while it is made waits. Read only."""
    folder = common_folder(factory, name)
    answer = folder.with_name(f"{folder.name}.path")
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not answer.exists():
            answer.write_text(str(make(folder)), encoding="utf-8")  # not reached by a make that fails
    return Path(answer.read_text(encoding="utf-8"))
