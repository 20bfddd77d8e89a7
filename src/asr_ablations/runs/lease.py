"""The lease of a run, which only one process at a time can hold across all machines that share the folder.

The lease file with the highest number identifies the holder. A lease is created by linking a complete file to a new
name, which is atomic on local disks and NFS. If a lease was released or its holder is dead, other processes try to
create the lease with the next number, and only one of them succeeds. A holder that was suspended notices the higher
number and stops. A holder also stops if it has been unable to write a heartbeat for half of EXPIRY.

The holder locks its lease file, and the system releases the lock when the process ends. Process ids would be less
reliable: processes in other containers or of other users may be invisible, and zombies look alive. On the holder's
kernel, the lock shows whether the holder is alive. On other kernels, or if the file system does not support locks, the
heartbeat shows this: the holder touches its lease file every few seconds.
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
from asr_verdicts.files import write_json

HEARTBEAT = 5.0  # seconds between heartbeats
EXPIRY = 60.0  # seconds without a heartbeat after which a holder on another machine counts as dead
LEASE_HELD_EXIT_CODE = 75
"""Exit code of a process whose run is leased to another process (EX_TEMPFAIL in sysexits.h)."""


class LeaseHeldError(Exception):
    """Another process holds the run's lease."""


class Lease:
    """The right to write to a run folder. lost: callback that receives the reason if this process loses the lease."""

    def __init__(self, folder: Path, lost: Callable[[str], None]) -> None:
        self._home, self._name, self._lost = folder.parent / LEASES, folder.name, lost
        self._path: Path | None = None
        self._content = b""
        self._lock: int | None = None
        self._stop = threading.Event()
        self._heartbeat = threading.Thread(target=self._beat, daemon=True, name="lease")

    def take(self) -> None:
        """Take the lease and hold it. Raises LeaseHeldError if another process holds it."""
        number, current = newest(self._home, self._name)
        if current is not None and (reason := _describe(current)):
            raise LeaseHeldError(f"{self._name}: {reason}")
        self._make(self._home / f"{self._name}.{number + 1:06d}")
        # a forked child inherits the lock and would keep it after its parent was killed
        os.register_at_fork(after_in_child=self._forget)
        for below in range(1, number + 1):  # older leases are no longer valid
            (self._home / f"{self._name}.{below:06d}").unlink(missing_ok=True)
        self._heartbeat.start()

    def _make(self, path: Path) -> None:
        """Create the lease file `path`. Raises LeaseHeldError if its number or a higher one exists."""
        self._forget()
        self._home.mkdir(parents=True, exist_ok=True)
        temporary = self._home / f".{self._name}.{uuid.uuid4().hex}"
        self._lock = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            self._content = json.dumps({**_describe_process(), "locked": _lock_file(self._lock)}).encode()
            os.write(self._lock, self._content)
            os.link(temporary, path)
            if newest(self._home, self._name)[1] != path:  # another process has just created a newer lease
                path.unlink(missing_ok=True)
                raise FileExistsError
        except BaseException as error:
            self._forget()
            if isinstance(error, FileExistsError):
                raise LeaseHeldError(f"{self._name}: another process took the lease first") from None
            raise
        finally:
            temporary.unlink(missing_ok=True)
        self._path = path

    def release(self) -> None:
        """Release the lease for other processes."""
        self._stop.set()
        if self._heartbeat.is_alive():
            self._heartbeat.join()
        with suppress(OSError):  # if writing fails, the lease ends with this process
            if self._path is not None and self._path.read_bytes() == self._content:
                write_json(self._path, {**_describe_process(), "released": True})
        self._path = None
        self._forget()

    def _forget(self) -> None:
        """Close the lease file. Its lock ends once all processes that inherited the open file have closed it."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _beat(self) -> None:
        assert self._path is not None
        last = time.monotonic()
        while not self._stop.wait(HEARTBEAT):
            try:
                _, current = newest(self._home, self._name)
                if current is None:  # the lease folder was removed, and no other process has leased the run
                    self._make(self._path)
                elif current != self._path or current.read_bytes() != self._content:
                    return self._lost(_describe(current) or "another process has worked on it in the meantime")
                os.utime(self._path)
                last = time.monotonic()
            except LeaseHeldError:
                return self._lost("another process has taken it over")
            except OSError as error:  # the file system may recover soon
                if time.monotonic() - last > EXPIRY / 2:
                    return self._lost(f"no heartbeat for {EXPIRY / 2:.0f} s: {error}")


def newest(home: Path, name: str) -> tuple[int, Path | None]:
    """Return the number and file of a run's newest lease; 0 and None if there is none. Raises OSError."""
    names = os.listdir(home) if home.exists() else []
    numbers = [entry.rpartition(".")[2] for entry in names if re.fullmatch(rf"{re.escape(name)}\.\d+", entry)]
    return (int(max(numbers)), home / f"{name}.{max(numbers)}") if numbers else (0, None)


def owner(folder: Path) -> str | None:
    """Describe the process that holds the lease of the run in this folder; None if the lease is free."""
    _, lease = newest(folder.parent / LEASES, folder.name)
    return _describe(lease) if lease is not None else None


def _describe(lease: Path) -> str | None:
    """Describe the holder of a lease; None if it has ended or released the lease."""
    try:
        try:
            holder = read_json(lease)
            if holder.get("released"):
                return None
            description = f"process {int(holder['pid'])} on {holder['host']} is working on it"
            is_here = bool(holder["locked"]) and holder["boot"] == _read_boot()
        except (ValueError, KeyError, TypeError):  # a power failure may leave an empty file
            description, is_here = "its lease cannot be read but is recent", False
        alive = _is_locked(lease) if is_here else _has_heartbeat(lease)
    except FileNotFoundError:
        return "another process took the lease first"
    return description if alive else None


def _lock_file(file: int) -> bool:
    """Lock an open file, and return whether the file system supports this."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _is_locked(lease: Path) -> bool:
    with lease.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # locks no longer work, although they did when the lease was taken
            return _has_heartbeat(lease)
        return False


def _has_heartbeat(lease: Path) -> bool:
    """Return whether the last heartbeat is less than EXPIRY seconds old.

    The file system's clock decides, because all machines share it. If it is adjusted, a live holder may look dead.
    The holder then notices the higher number of the next lease, and stops.
    """
    probe = lease.with_name(f".now.{uuid.uuid4().hex}")
    try:
        probe.touch()
        now = probe.stat().st_mtime
        probe.unlink(missing_ok=True)
    except OSError:  # the folder is read-only
        now = time.time()
    return 0 <= now - lease.stat().st_mtime < EXPIRY


def _read_boot() -> str:
    """Return an id of the running kernel. It changes at each boot and is the same in all containers on a machine."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{socket.gethostname()} {psutil.boot_time():.0f}"


def _describe_process() -> dict[str, object]:
    return {"host": socket.gethostname(), "pid": os.getpid(), "boot": _read_boot()}
