"""The machine: its cores, memory and clock, and locks for files that one process at a time may make."""

import ctypes
import fcntl
import getpass
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from asr_verdicts.errors import UsageError, choices


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def name_the_user() -> None:
    """Give a user without an entry in the system's list, as in `docker run --user 12345`, a name in this process and
    those that it starts: PyTorch and others ask for one, and would end with a KeyError.
    """
    try:
        getpass.getuser()
    except (KeyError, OSError):  # the second from Python 3.13 on
        os.environ["USER"] = str(os.getuid())


FILES, FILES_OF_A_WORKER = 64, 32
"""Files, pipes and sockets that a run has open, and those of each process that reads for it."""


def allow_files(workers: int) -> None:
    """Open as many files as the system allows. Raises UsageError if these are too few for libraries."""
    least, (_, most) = FILES + FILES_OF_A_WORKER * workers, resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most != resource.RLIM_INFINITY and most < least:
        raise UsageError(f"workers={workers}: {most} files may be open at a time (ulimit -n); expected {least} or more")


@contextmanager
def one_at_a_time(path: Path, message: str) -> Iterator[None]:
    """Hold the lock of the file at `path`; a second process says `message` and waits. An owner that dies frees it. The
    file is gone when nobody holds it. Raises UsageError where the file system has no locks, and for a link.
    """
    while True:
        with os.fdopen(_open_lock(path)) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(message, file=sys.stderr, flush=True)
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError as error:
                reason = f"{path}: cannot be locked ({error.strerror}): expected a disk with file locks"
                raise UsageError(reason) from error
            if not _is_at(path, file):
                continue  # its owner has removed it: another process may hold a new one by now
            try:
                yield
            finally:
                with suppress(OSError):  # another user's, in a folder where only the owner removes a file
                    path.unlink()
            return


def _open_lock(path: Path) -> int:
    """Open a lock file, which may be another user's, without changing what is in it."""
    if path.is_symlink():
        raise UsageError(f"{path}: a link; expected a lock file, or nothing with this name")
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except PermissionError:
        if not path.exists():
            raise
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)


def _is_at(path: Path, file: IO[str]) -> bool:
    """Return whether the open file is the one that has this name now."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def peak_memory() -> int:
    """The most bytes of memory that this process has held, its libraries included."""
    try:
        # getrusage's maximum begins with the parent's: exec does not reset it
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def available_memory() -> int | None:
    """Bytes of memory that new processes may take within the limits of this container or job; None if unknown."""
    sizes = [_bytes_of("/proc/meminfo", "MemAvailable:", 1024), *_left_in_groups()]
    return min((size for size in sizes if size is not None), default=None)


GROUPS = {
    "": ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "),
    "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
}
"""By the kind of a line of /proc/self/cgroup (the second version has none): the top folder of the groups, the files of
their limit and use, and the line of memory.stat with files that were read, which are given back.
"""


def _left_in_groups() -> Iterator[int | None]:
    """Bytes that each group of this process has left, its own and those around it."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for _, kind, path in (line.split(":", 2) for line in lines):
        if kind in GROUPS:
            top, limit, used, cached = GROUPS[kind]
            for name in (path, *map(str, Path(path).parents)):
                folder = f"{top}/{name}"
                most, taken = _bytes_of(f"{folder}/{limit}"), _bytes_of(f"{folder}/{used}")
                given_back = _bytes_of(f"{folder}/memory.stat", cached) or 0
                yield None if most is None or taken is None else max(0, most - taken + given_back)


def _bytes_of(path: str, name: str = "", unit: int = 1) -> int | None:
    """The number behind `name` in a file of the system; None where there is none, or no limit."""
    try:
        line = next(line for line in Path(path).read_text().splitlines() if line.startswith(name))
        return unit * int(line.removeprefix(name).split()[0])
    except (OSError, StopIteration, ValueError):
        return None


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc: free memory it gives back, sizes that it maps


def give_memory_back() -> None:
    """Return buffers of a megabyte or more to the system as soon as they are freed, where the C library is glibc: by
    itself it keeps up to 32 MB of them for each thread and size, and a server would hold what its requests took.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1 << 20)


def keep_memory() -> None:
    """Keep up to a gigabyte of freed buffers for the next ones, where the C library is glibc: a training step on a CPU
    asks for the same ones again, and by itself gets each page anew, up to a seventh of its time.
    """
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 32 << 20)  # it takes no more
        libc.mallopt(M_TRIM_THRESHOLD, 1 << 30)


def visible_gpus() -> list[str]:
    """Names of the GPUs that this process may use, from the driver: a fork after torch opened CUDA cannot use it."""
    if (names := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name.strip() for name in names.split(",") if name.strip() not in ("", "-1")]
    import pynvml

    try:
        pynvml.nvmlInit()
        return [str(i) for i in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return []


def gpu_memory() -> int:
    """Bytes of the smallest GPU that this process may use; 0 where there is none, or the driver does not say."""
    import pynvml

    return min((int(total) for total in _ask_gpus(lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu).total)), default=0)


def gpu_names() -> list[str]:
    """The names of the GPUs that this process may use, from the driver as well: torch would open CUDA for them."""
    import pynvml

    return [str(name) for name in _ask_gpus(pynvml.nvmlDeviceGetName)]


def _ask_gpus(question: Callable[[Any], Any]) -> list[Any]:
    """The driver's answer for each GPU that this process may use; none where it does not answer."""
    import pynvml

    by_index, by_uuid = pynvml.nvmlDeviceGetHandleByIndex, pynvml.nvmlDeviceGetHandleByUUID
    try:
        pynvml.nvmlInit()
        return [question(by_index(int(gpu)) if gpu.isdigit() else by_uuid(gpu)) for gpu in visible_gpus()]
    except pynvml.NVMLError:
        return []


def mps_is_on() -> bool:
    """Return whether NVIDIA's Multi-Process Service runs; without it, processes on one GPU take turns."""
    return (Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")) / "control").exists()


def device_clock(device: object) -> float:
    """time.perf_counter() once the device, a torch.device or its type, has finished all work queued on it."""
    if str(device).startswith("cuda"):
        import torch

        torch.cuda.synchronize()
    return time.perf_counter()


def iso(seconds: float) -> str:
    """A time in seconds since the epoch as text, UTC."""
    return datetime.fromtimestamp(seconds, tz=timezone.utc).isoformat(timespec="seconds")


def rank() -> int:
    """The rank of this process in its run, as torchrun numbers ranks; 0 if there is only one process."""
    number = os.environ.get("RANK", "0")
    if not number.isdecimal():
        raise choices("RANK", number, "a whole number, as torchrun sets it, or no such variable")
    return int(number)
