"""The lease of a run: one process at a time, on any machine that sees the folder.

The holder of a run is the lease file with the highest number. A lease is made by linking a written file to a name that
must not exist yet, which is atomic on local disks and on NFS. The holder locks its lease, and touches it every few
seconds; one that is released, or whose holder is dead, is taken over with the next number, so that of several takers
one wins. A holder that was only asleep sees the higher number and stops.

The kernel frees the lock when the process ends, so the lock tells all who share it if the holder lives: no process id
(containers and /proc may hide it), no zombie, and no clock counts. For others, on another machine or where locks do not
work, the heartbeat counts.
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

from asr_ablations.runs.layout import LEASES
from asr_ablations.tools.files import read_json

HEARTBEAT = 5.0
"""Seconds between two heartbeats."""
EXPIRY = 60.0
"""Seconds without a heartbeat after which a holder on another machine counts as dead."""
CLOCKS = 2.0
"""Seconds by which the times of one file system may disagree."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LEASE_HELD_EXIT_CODE = 75
"""Exit code of a process that found its run leased to another one (EX_TEMPFAIL of sysexits.h)."""


class LeaseHeldError(Exception):
    """Another process works on this run."""


class Lease:
    """The right to write one run's folder. lost: what to do when another process has taken it over."""

    def __init__(self, folder: Path, lost: Callable[[], None]) -> None:
        self._home, self._name, self._lost = folder.parent / LEASES, folder.name, lost
        self._path: Path | None = None
        self._lock: int | None = None
        self._stop = threading.Event()
        self._heartbeat: threading.Thread | None = None

    def take(self) -> None:
        """Hold the run from now on. Raises LeaseHeldError where another process does. Before a run of another machine
        is taken over, its heartbeat is watched: seconds, or EXPIRY where the clocks disagree.
        """
        self._home.mkdir(parents=True, exist_ok=True)
        number, current = newest(self._home, self._name)
        if current is not None and (reason := _why_held(current, watch=True)):
            raise LeaseHeldError(f"{self._name}: {reason}")
        own = self._home / f"{self._name}.{number + 1:06d}"
        temporary = self._home / f".{self._name}.{uuid.uuid4().hex}"
        temporary.touch()
        lock = os.open(temporary, os.O_RDWR)
        try:
            temporary.write_text(json.dumps(_this_process(lock)), encoding="utf-8")
            os.link(temporary, own)
            if newest(self._home, self._name)[1] != own:  # meanwhile others took, left and cleared what lay between
                own.unlink(missing_ok=True)
                raise FileExistsError
        except BaseException as error:
            os.close(lock)
            if isinstance(error, FileExistsError):
                raise LeaseHeldError(f"{self._name}: another process was faster") from None
            raise
        finally:
            temporary.unlink()
        self._path, self._lock = own, lock
        os.register_at_fork(after_in_child=self._unlock)  # a worker that outlives this process must not hold the run
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
        """Close this process's end of the lock; it is free when no process has it open."""
        if self._lock is not None:
            os.close(self._lock)
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


def owner(folder: Path, *, watch: bool = False) -> str | None:
    """A description of the process that holds this run, or None. watch: as a taker looks, which can take EXPIRY."""
    _, lease = newest(folder.parent / LEASES, folder.name)
    return _why_held(lease, watch=watch) if lease is not None else None


def _why_held(lease: Path, *, watch: bool) -> str | None:
    """A description of the holder; None if the lease is released or its holder is dead."""
    try:
        holder = read_json(lease)
        if holder.get("released"):
            return None
        description = f"process {holder['pid']} on {holder['host']} is working on it"
        lock_shared = bool(holder["lock"]) and (holder["lock"] == _lock_space(lease.stat()))
    except FileNotFoundError:
        return "another process was faster"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # a power cut leaves empty files
        description, lock_shared = "a lease that cannot be read", False
    if lock_shared and (locked := _is_locked(lease)) is not None:
        return description if locked else None
    return description if _beats(lease, watch=watch) else None


def _is_locked(lease: Path) -> bool | None:
    """Return whether a process holds the lock of this lease; None where locks do not work."""
    try:
        with lease.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def _beats(lease: Path, *, watch: bool) -> bool:
    """Return whether the holder touches its lease. A watcher trusts no clock but its own monotonic one with a bad
    answer: a clock that was set forward makes a living holder look dead, one that was set back a dead one alive.
    """
    try:
        age, last = _age(lease), lease.stat().st_mtime_ns
        if not watch or 0 <= age + CLOCKS < EXPIRY + CLOCKS:
            return age < EXPIRY
        end = time.monotonic() + (EXPIRY if age < 0 else 2 * HEARTBEAT)
        while time.monotonic() < end:
            time.sleep(HEARTBEAT / 10)
            if lease.stat().st_mtime_ns != last:
                return True
    except FileNotFoundError:  # released, or taken over
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


def _this_process(lock: int | None = None) -> dict[str, object]:
    """The content of a lease. lock: the open file to lock for it."""
    shared = ""
    if lock is not None:
        with suppress(OSError):  # ENOLCK of some network file systems
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shared = _lock_space(os.fstat(lock))
    return {"host": socket.gethostname(), "pid": os.getpid(), "lock": shared, "time": time.time()}


def _lock_space(status: os.stat_result) -> str:
    """The kernel, by the id of its boot, and the device of a file: all who see the same two see the same locks, in any
    container; "" where the system gives no such id.
    """
    try:
        return f"{BOOT_ID.read_text(encoding='ascii').strip()}:{status.st_dev}"
    except OSError:
        return ""
