"""The lease of a run: one process at a time, on any machine that sees the folder.

The holder of a run is the lease file with the highest number. A lease is made by linking a written file to a name that
must not exist yet, which is atomic on local disks and on NFS. A lease that is released, or whose holder is dead, is
taken over with the next number, so that of several takers one wins. A holder that was only asleep sees the higher
number and stops, as does one that has had no heartbeat for half the time after which others count it as dead.

Whether a holder lives does not depend on seeing its process: another container, another user under a hidden /proc, a
zombie and a clock that is stepped all show it wrongly. The holder keeps its lease file locked, and the system frees the
lock when the process ends, however it does. That decides on one kernel. From another machine, whose locks may be its
own, and where a file system has none, a heartbeat decides: the holder touches its lease every few seconds.
"""

import fcntl
import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from asr_ablations.runs.layout import LEASES
from asr_ablations.tools.files import read_json

HEARTBEAT = 5.0  # seconds between two heartbeats
EXPIRY = 60.0  # seconds without a heartbeat after which a holder on another machine counts as dead
WATCHED = 3 * HEARTBEAT
"""Seconds that a taker watches a lease that seems to have expired: a stepped clock makes any lease look so."""
LEASE_HELD_EXIT_CODE = 75
"""Exit code of a process that found its run leased to another one (EX_TEMPFAIL of sysexits.h)."""


class LeaseHeldError(Exception):
    """Another process works on this run."""


class Lease:
    """The right to write one run's folder. lost: called with the reason when this process may no longer write it."""

    def __init__(self, folder: Path, lost: Callable[[str], None]) -> None:
        self._home, self._name, self._lost = folder.parent / LEASES, folder.name, lost
        self._path: Path | None = None
        self._content = b""
        self._lock: int | None = None
        self._stop = threading.Event()
        self._heartbeat: threading.Thread | None = None

    def take(self) -> None:
        """Hold the run from now on. Raises LeaseHeldError where another process does."""
        number, current = newest(self._home, self._name)
        if current is not None and (reason := _why_held(current, watch=True)):
            raise LeaseHeldError(f"{self._name}: {reason}")
        self._make(self._home / f"{self._name}.{number + 1:06d}")
        # a forked child has the lock, too, and would keep it for a parent that was killed
        os.register_at_fork(after_in_child=self._forget)
        for below in range(1, number + 1):  # those no longer count
            (self._home / f"{self._name}.{below:06d}").unlink(missing_ok=True)
        unfinished = re.compile(rf"\.{re.escape(self._name)}\.([0-9a-f]{{32}}|\d+\.\d+)")
        for path in self._home.iterdir():  # of processes that were ended while they took or left the run
            if unfinished.fullmatch(path.name):
                path.unlink(missing_ok=True)
        self._heartbeat = threading.Thread(target=self._beat, daemon=True, name="lease")
        self._heartbeat.start()

    def _make(self, path: Path) -> None:
        """Make the lease file `path`. Raises LeaseHeldError if there is one with this number or a higher one."""
        self._home.mkdir(parents=True, exist_ok=True)
        temporary = self._home / f".{self._name}.{uuid.uuid4().hex}"
        lock = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            content = json.dumps({**_this_process(), "locked": _locked(lock)}).encode()
            os.write(lock, content)
            os.link(temporary, path)
            if newest(self._home, self._name)[1] != path:  # meanwhile others took, left and cleared what lay between
                path.unlink(missing_ok=True)
                raise FileExistsError
        except (FileExistsError, FileNotFoundError):  # not found: who holds the run has cleared up
            os.close(lock)
            raise LeaseHeldError(f"{self._name}: another process was faster") from None
        except BaseException:
            os.close(lock)
            raise
        finally:
            temporary.unlink(missing_ok=True)
        self._forget()
        self._path, self._lock, self._content = path, lock, content

    def release(self) -> None:
        """Leave the run to whoever wants it."""
        self._stop.set()
        if self._heartbeat is not None:
            self._heartbeat.join()
        with suppress(OSError):  # then it ends with this process
            if self._path is not None and self._path.read_bytes() == self._content:
                released = self._path.with_name(f".{self._path.name}.{os.getpid()}")
                released.write_text(json.dumps({**_this_process(), "released": True}), encoding="utf-8")
                released.replace(self._path)
        self._path = None
        self._forget()

    def _forget(self) -> None:
        """Close the lease file; the lock goes with the last process that has it open."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _beat(self) -> None:
        assert self._path is not None
        last = time.monotonic()
        while not self._stop.wait(HEARTBEAT):
            try:
                _, current = newest(self._home, self._name)
                if current is None:  # the folder of leases was removed, and no other process holds the run
                    self._make(self._path)
                elif current != self._path or current.read_bytes() != self._content:
                    return self._lost(_why_held(current, watch=False) or "another process has worked on it meanwhile")
                os.utime(self._path)
                last = time.monotonic()
            except LeaseHeldError:
                return self._lost("another process has taken it over")
            except OSError as error:  # a file system that answers again in a moment
                if time.monotonic() - last > EXPIRY / 2:
                    return self._lost(f"no heartbeat for {EXPIRY / 2:.0f} s: {error}")


def newest(home: Path, name: str) -> tuple[int, Path | None]:
    """Return number and file of the lease that counts, or 0 and None. Raises OSError if the folder cannot be read."""
    names = os.listdir(home) if home.exists() else []
    numbers = [entry.rpartition(".")[2] for entry in names if re.fullmatch(rf"{re.escape(name)}\.\d+", entry)]
    return (int(max(numbers)), home / f"{name}.{max(numbers)}") if numbers else (0, None)


def owner(folder: Path) -> str | None:
    """A description of the process that holds this run, or None. It looks once: `Lease.take` looks longer."""
    _, lease = newest(folder.parent / LEASES, folder.name)
    return _why_held(lease, watch=False) if lease is not None else None


def _why_held(lease: Path, watch: bool) -> str | None:
    """Describe the holder; None if there is none any more. watch: wait for a heartbeat if the last one seems old."""
    try:
        holder = read_json(lease)
        if holder.get("released"):
            return None
        description = f"process {int(holder['pid'])} on {holder['host']} is working on it"
        is_here = bool(holder["locked"]) and holder["boot"] == _boot()
    except FileNotFoundError:
        return "another process was faster"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # a power cut leaves empty files
        return "a lease that cannot be read" if _age(lease) < EXPIRY else None
    try:
        alive = _is_locked(lease) if is_here else _has_heartbeat(lease, watch)
    except FileNotFoundError:
        return "another process was faster"
    return description if alive else None


def _locked(file: int) -> bool:
    """Lock an open file for this process; False where its file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_locked(lease: Path) -> bool:
    with lease.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # locks worked when it was taken
            return _age(lease) < EXPIRY
        return False


def _has_heartbeat(lease: Path, watch: bool) -> bool:
    """Return whether the last heartbeat is younger than EXPIRY. Its age is wrong if a clock was set: with `watch`, wait
    for another heartbeat by the clock of this process.
    """
    if 0 <= _age(lease) < EXPIRY:
        return True
    if not watch:
        return False
    before, end = lease.stat().st_mtime_ns, time.monotonic() + WATCHED
    while time.monotonic() < end:
        time.sleep(min(HEARTBEAT, WATCHED) / 5)
        if lease.stat().st_mtime_ns != before:
            return True
    return False


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


def _boot() -> str:
    """The kernel that runs, which containers of a machine share; it is another one after each start."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"{socket.gethostname()} {psutil.boot_time():.0f}"


def _this_process() -> dict[str, object]:
    return {"host": socket.gethostname(), "pid": os.getpid(), "boot": _boot(), "time": time.time()}
