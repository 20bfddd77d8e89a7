"""Who works on a run: one process at a time, on any machine that sees the folder.

The owner of a run is the claim file with the highest number. A claim is made by linking a written file to a name that
must not exist yet, which is atomic on local disks and on NFS. The owner touches its claim every few seconds; one that
is released, or whose owner is dead, is taken over with the next number, so that of several takers one wins. An owner
that was only asleep sees the higher number and stops.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

BEAT = 5.0
"""Seconds between two signs of life."""
SILENCE = 60.0
"""Seconds without one after which an owner on another machine counts as dead."""
FOLDER = ".claims"


class ClaimedError(Exception):
    """Another process is at this run."""


class Claim:
    """The right to write one run's folder. lost: what to do when another has taken it over."""

    def __init__(self, folder: Path, lost: Callable[[], None]) -> None:
        self._home, self._name, self._lost = folder.parent / FOLDER, folder.name, lost
        self._path: Path | None = None
        self._stop = threading.Event()
        self._heart: threading.Thread | None = None

    def take(self) -> None:
        """Own the run from here on. Raises ClaimedError where another process does."""
        self._home.mkdir(parents=True, exist_ok=True)
        number, owner = newest(self._home, self._name)
        if owner is not None and (reason := _alive(owner)):
            raise ClaimedError(f"{self._name}: {reason}")
        mine = self._home / f"{self._name}.{number + 1:06d}"
        temporary = self._home / f".{self._name}.{uuid.uuid4().hex}"
        temporary.write_text(json.dumps(_myself()), encoding="utf-8")
        try:
            os.link(temporary, mine)
        except FileExistsError:
            raise ClaimedError(f"{self._name}: another process was faster") from None
        finally:
            temporary.unlink()
        if newest(self._home, self._name)[1] != mine:  # meanwhile others took, left and cleared what lay between
            mine.unlink(missing_ok=True)
            raise ClaimedError(f"{self._name}: another process was faster")
        self._path = mine
        for below in range(1, number + 1):  # they have no say any more
            (self._home / f"{self._name}.{below:06d}").unlink(missing_ok=True)
        self._heart = threading.Thread(target=self._beat, daemon=True, name="claim")
        self._heart.start()

    def release(self) -> None:
        """Leave the run to whoever wants it."""
        self._stop.set()
        if self._heart is not None:
            self._heart.join()
        if self._path is not None and self._path.exists():
            released = self._path.with_name(f".{self._path.name}.{os.getpid()}")
            released.write_text(json.dumps({**_myself(), "released": True}), encoding="utf-8")
            released.replace(self._path)
        self._path = None

    def _beat(self) -> None:
        assert self._path is not None
        while not self._stop.wait(BEAT):
            try:
                os.utime(self._path)
            except FileNotFoundError:
                pass
            else:
                if newest(self._home, self._name)[1] == self._path:
                    continue
            self._lost()
            return


def newest(home: Path, name: str) -> tuple[int, Path | None]:
    """Number and file of the claim that counts; 0 and None without one."""
    claims = sorted(path for path in home.glob(f"{name}.*") if path.name[len(name) + 1 :].isdigit())
    return (int(claims[-1].name.rpartition(".")[2]), claims[-1]) if claims else (0, None)


def owner(folder: Path) -> str | None:
    """Who is at the run of this folder, in words; None for nobody."""
    _, claim = newest(folder.parent / FOLDER, folder.name)
    return _alive(claim) if claim is not None else None


def _alive(claim: Path) -> str | None:
    """In words, why the claim still holds; None if it is released or its owner is dead."""
    try:
        told = json.loads(claim.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "another process was faster"
    if told.get("released"):
        return None
    where = f"process {told['pid']} on {told['host']} is at it"
    if told["host"] == socket.gethostname() and told["boot"] == psutil.boot_time():
        try:
            return where if abs(psutil.Process(told["pid"]).create_time() - told["born"]) < 1 else None
        except psutil.NoSuchProcess:
            return None
    return where if _age(claim) < SILENCE else None


def _age(claim: Path) -> float:
    """Seconds since the last sign of life, by the clock of the file system that both machines share."""
    probe = claim.with_name(f".now.{uuid.uuid4().hex}")
    probe.touch()
    now = probe.stat().st_mtime
    probe.unlink(missing_ok=True)
    return now - claim.stat().st_mtime


def _myself() -> dict[str, Any]:
    process = psutil.Process()
    born, boot = process.create_time(), psutil.boot_time()
    return {"host": socket.gethostname(), "pid": process.pid, "born": born, "boot": boot, "time": time.time()}
