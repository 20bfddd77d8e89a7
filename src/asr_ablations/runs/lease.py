"""The lease of a run: one process at a time, on any machine that sees the folder.

The holder of a run is the lease file with the highest number. A lease is made by linking a written file to a name that
must not exist yet, which is atomic on local disks and on NFS. The holder touches its lease every few seconds; one that
is released, or whose holder is dead, is taken over with the next number, so that of several takers one wins. A holder
that was only asleep sees the higher number and stops.

The holder also keeps a lock (flock) on its lease, which the kernel frees as the process ends. On the same kernel it
says who is alive, whatever hides processes from each other: containers, a /proc with hidepid, a zombie, a clock that is
stepped. From elsewhere, and without working locks, the heartbeat does.
"""

import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

from asr_ablations.runs.layout import LEASES
from asr_ablations.tools.files import read_json

HEARTBEAT = 5.0
"""Seconds between two heartbeats."""
EXPIRY = 60.0
"""Seconds without a heartbeat after which a holder on another machine counts as dead."""
LEASE_HELD_EXIT_CODE = 75
"""Exit code of a process that found its run leased to another one (EX_TEMPFAIL of sysexits.h)."""


class LeaseHeldError(Exception):
    """Another process works on this run."""


class Lease:
    """The right to write one run's folder. lost: what to do when another process has taken it over."""

    def __init__(self, folder: Path, lost: Callable[[], None]) -> None:
        self._home, self._name, self._lost = folder.parent / LEASES, folder.name, lost
        self._path: Path | None = None
        self._stop = threading.Event()
        self._heartbeat: threading.Thread | None = None
        self._lock: IO[bytes] | None = None
        os.register_at_fork(after_in_child=self._unlock)  # a worker that outlives its run would hold it

    def take(self) -> None:
        """Hold the run from now on. Raises LeaseHeldError where another process does."""
        self._home.mkdir(parents=True, exist_ok=True)
        number, current = newest(self._home, self._name)
        if current is not None and (reason := _why_held(current)):
            raise LeaseHeldError(f"{self._name}: {reason}")
        own = self._home / f"{self._name}.{number + 1:06d}"
        temporary = self._home / f".{self._name}.{uuid.uuid4().hex}"
        self._lock = temporary.open("w+b")
        self._lock.write(json.dumps({**_this_process(), "locked": _locked(self._lock)}).encode())
        self._lock.flush()
        try:
            os.link(temporary, own)
        except FileExistsError:
            self._unlock()
            raise LeaseHeldError(f"{self._name}: another process was faster") from None
        finally:
            temporary.unlink()
        if newest(self._home, self._name)[1] != own:  # meanwhile others took, left and cleared what lay between
            own.unlink(missing_ok=True)
            self._unlock()
            raise LeaseHeldError(f"{self._name}: another process was faster")
        self._path = own
        for below in range(1, number + 1):  # those no longer count
            (self._home / f"{self._name}.{below:06d}").unlink(missing_ok=True)
        self._heartbeat = threading.Thread(target=self._beat, daemon=True, name="lease")
        self._heartbeat.start()

    def release(self) -> None:
        """Leave the run to whoever wants it."""
        self._stop.set()
        if self._heartbeat is not None:
            self._heartbeat.join()
        if self._path is not None and self._path.exists():
            released = self._path.with_name(f".{self._path.name}.{os.getpid()}")
            released.write_text(json.dumps({**_this_process(), "released": True}), encoding="utf-8")
            released.replace(self._path)
        self._path = None
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _beat(self) -> None:
        assert self._path is not None
        while not self._stop.wait(HEARTBEAT):
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
    """Number and file of the lease that counts; 0 and None without one."""
    leases = sorted(path for path in home.glob(f"{name}.*") if path.name[len(name) + 1 :].isdigit())
    return (int(leases[-1].name.rpartition(".")[2]), leases[-1]) if leases else (0, None)


def owner(folder: Path) -> str | None:
    """A description of the process that holds this run, or None."""
    _, lease = newest(folder.parent / LEASES, folder.name)
    return _why_held(lease) if lease is not None else None


def _why_held(lease: Path) -> str | None:
    """A description of the holder; None if the lease is released or its holder is dead."""
    try:
        holder = read_json(lease)
        if holder.get("released"):
            return None
        description = f"process {holder['pid']} on {holder['host']} is working on it"
        started_there, boot = float(holder["process_started"]), float(holder["boot"])
        pid = int(holder["pid"])
    except FileNotFoundError:
        return "another process was faster"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # a power cut leaves empty files
        return "a lease that cannot be read" if _age(lease) < EXPIRY else None
    if holder.get("locked") and holder.get("boot_id") == _boot_id():
        with suppress(OSError), lease.open("rb") as file:
            return None if _locked(file, fcntl.LOCK_SH) else description
    if holder["host"] == socket.gethostname() and boot == psutil.boot_time():
        try:
            started = psutil.Process(pid).create_time()
        except (psutil.NoSuchProcess, ValueError):
            return None
        return description if abs(started - started_there) < 1 else None
    return description if _age(lease) < EXPIRY else None


def _locked(file: IO[bytes], kind: int = fcntl.LOCK_EX) -> bool:
    """Lock the file if nobody else has; False, too, on a file system without locks."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _boot_id() -> str | None:
    """What the kernel calls its start, by no clock; None on a system that does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _age(lease: Path) -> float:
    """Seconds since the last heartbeat, by the clock of the file system that both machines share."""
    probe = lease.with_name(f".now.{uuid.uuid4().hex}")
    try:
        probe.touch()
        now = probe.stat().st_mtime
        probe.unlink(missing_ok=True)
    except OSError:  # a folder that is only read
        now = time.time()
    return now - lease.stat().st_mtime


def _this_process() -> dict[str, object]:
    process = psutil.Process()
    return {
        "host": socket.gethostname(),
        "pid": process.pid,
        "process_started": process.create_time(),
        "boot": psutil.boot_time(),
        "boot_id": _boot_id(),
        "time": time.time(),
    }
