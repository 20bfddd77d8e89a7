"""The machine's cores, memory, GPUs and clock, and file locks."""

import ctypes
import fcntl
import getpass
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import named


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def name_the_user() -> None:
    """Set USER if the user has no name, as in `docker run --user 12345`. Otherwise PyTorch and other libraries would
    fail with a KeyError when they look up the name. Child processes inherit the variable.
    """
    try:
        getpass.getuser()
    except (KeyError, OSError):  # OSError since Python 3.13
        os.environ["USER"] = str(os.getuid())


FILES, FILES_OF_A_WORKER = 64, 32
"""Number of open files, pipes and sockets that a run needs, and the number that each data worker needs."""


def allow_files(workers: int) -> None:
    """Raise the limit on open files to its maximum. Raises UsageError if that is too low for `workers` data workers."""
    least, (_, most) = FILES + FILES_OF_A_WORKER * workers, resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most != resource.RLIM_INFINITY and most < least:
        raise UsageError(f"workers={workers}: at most {most} files may be open (ulimit -n); expected {least} or more")


@contextmanager
def one_at_a_time(path: Path, message: str) -> Iterator[None]:
    """Hold a lock on the file at `path` within the context. Other processes print `message` and wait.

    The lock is released if its owner dies. Each owner removes the file at the end. Raises OSError if the path is a
    symbolic link, or if the file system does not support locks.
    """
    while True:
        with os.fdopen(_open_lock(path)) as file:
            with named(path):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    print(message, file=sys.stderr, flush=True)
                    fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_at(path, file.fileno()):
                continue  # the previous owner has removed the file, and another process may hold a new one
            try:
                yield
            finally:
                with suppress(OSError):  # another user owns the file, and only owners may remove files in this folder
                    path.unlink()
            return


def _open_lock(path: Path) -> int:
    """Open a lock file without changing it, and return its file descriptor. Another user may own the file."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except PermissionError:
        if not path.exists():
            raise
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)


def _is_at(path: Path, file: int) -> bool:
    """Return whether the path still refers to this open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def peak_memory() -> int:
    """Return the peak memory of this process in bytes (maximum resident set size)."""
    # the maximum of getrusage would start at the parent's value, because exec does not reset it
    if (peak := _read_bytes("/proc/self/status", "VmHWM:", 1024)) is not None:
        return peak
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def available_memory() -> int | None:
    """Return how many bytes of memory new processes can use, given a container's or job's limits; None if unknown."""
    sizes = [_read_bytes("/proc/meminfo", "MemAvailable:", 1024), *_read_group_limits()]
    return min((size for size in sizes if size is not None), default=None)


GROUPS = {
    "": ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "),
    "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
}
"""Memory files of control groups, by controller in /proc/self/cgroup ("" in version 2): the root folder, the file with
the limit, the file with the usage, and the line in memory.stat for cached file pages, which the system can reclaim.
"""


def _read_group_limits() -> Iterator[int | None]:
    """Yield the bytes left in each control group of this process and in all enclosing groups; None if unlimited."""
    groups = Path("/proc/self/cgroup")
    for line in groups.read_text().splitlines() if groups.exists() else ():
        _, kind, path = line.split(":", 2)
        if kind in GROUPS:
            top, limit, used, cached = GROUPS[kind]
            for name in (path, *map(str, Path(path).parents)):
                folder = f"{top}/{name}"
                most, taken = _read_bytes(f"{folder}/{limit}"), _read_bytes(f"{folder}/{used}")
                given_back = _read_bytes(f"{folder}/memory.stat", cached) or 0
                yield None if most is None or taken is None else max(0, most - taken + given_back)


def _read_bytes(path: str, name: str = "", unit: int = 1) -> int | None:
    """Return the number after `name` in a system file, times `unit`; None if the number is missing or unlimited."""
    try:
        line = next(line for line in Path(path).read_text().splitlines() if line.startswith(name))
        return unit * int(line.removeprefix(name).split()[0])
    except (OSError, StopIteration, ValueError):
        return None


def give_memory_back() -> None:
    """Let glibc return buffers of 1 MB or more to the system once they are freed. By default, glibc keeps up to 32 MB
    per thread and size, so a server would hold the memory of finished requests.
    """
    _set_thresholds(1 << 20)


def keep_memory() -> None:
    """Let glibc keep up to 1 GB of freed buffers for reuse. Every training step on a CPU requests the same buffers. By
    default, the buffers' pages are mapped again each time, which takes up to a seventh of the step.
    """
    _set_thresholds(32 << 20, 1 << 30)  # glibc allows at most 32 MB for the first threshold


def _set_thresholds(mapped: int, *trimmed: int) -> None:
    """Set the bytes above which glibc maps a buffer (M_MMAP_THRESHOLD) and returns free memory (M_TRIM_THRESHOLD)."""
    with suppress(OSError, AttributeError):
        for option, size in zip((-3, -1), (mapped, *trimmed), strict=False):
            ctypes.CDLL(None).mallopt(option, size)


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, without initialising CUDA, which forked processes could not use."""
    if (names := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name.strip() for name in names.split(",") if name.strip() not in ("", "-1")]
    return _ask_driver(lambda nvml: [str(number) for number in range(nvml.nvmlDeviceGetCount())])


def gpu_memory() -> int:
    """Return the memory, in bytes, of the smallest GPU that this process may use; 0 if there is no GPU or driver."""
    sizes = _ask_driver(lambda nvml: [nvml.nvmlDeviceGetMemoryInfo(gpu).total for gpu in _gpus(nvml)])
    return int(min(sizes, default=0))


def gpu_names() -> list[str]:
    """Return the model names of the GPUs that this process may use. Ask the driver, because torch would open CUDA."""
    return _ask_driver(lambda nvml: [str(nvml.nvmlDeviceGetName(gpu)) for gpu in _gpus(nvml)])


def _gpus(nvml: Any) -> Iterator[Any]:
    """Yield the driver's handle for each GPU that this process may use."""
    for gpu in visible_gpus():
        yield nvml.nvmlDeviceGetHandleByIndex(int(gpu)) if gpu.isdigit() else nvml.nvmlDeviceGetHandleByUUID(gpu)


def _ask_driver(question: Callable[[Any], list[Any]]) -> list[Any]:
    """Return `question(pynvml)`; an empty list if NVIDIA's driver is missing or fails."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return question(pynvml)
    except pynvml.NVMLError:
        return []


def mps_is_on() -> bool:
    """Return whether NVIDIA's Multi-Process Service is running. Without it, processes on the same GPU take turns."""
    return (Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")) / "control").exists()


def device_clock(device: object) -> float:
    """Wait for all work queued on a device, and return time.perf_counter(). device: a torch.device or its type."""
    if str(device).startswith("cuda"):
        import torch

        torch.cuda.synchronize()
    return time.perf_counter()


class AwakeClock:
    """A clock in seconds that does not count the time in which the process is stopped, as by Ctrl-Z or SIGSTOP.

    SIGCONT tells a process that it runs again. The pause is then the time since the main thread last read the clock, so
    the main thread must read it at every step. Time in which the machine sleeps is not counted either.
    """

    def __init__(self) -> None:
        self.paused, self._read = 0.0, time.perf_counter()

    def __call__(self) -> float:
        self._read = time.perf_counter()
        return self._read - self.paused

    def listen(self) -> None:
        """Begin to handle SIGCONT. Only the main thread can do this."""
        signal.signal(signal.SIGCONT, self._continue)

    def _continue(self, *_: object) -> None:
        pause = time.perf_counter() - self._read
        self.paused += pause
        self()
        if pause > SHORTEST_PAUSE:
            print(f"stopped for {pause:.0f} s, which do not count as training time", flush=True)


SHORTEST_PAUSE = 5.0  # seconds; shorter ones are not reported, since they may be the time of a step
awake = AwakeClock()


def iso(seconds: float) -> str:
    """Format seconds since the epoch as a date and time in UTC (ISO 8601)."""
    return datetime.fromtimestamp(seconds, tz=timezone.utc).isoformat(timespec="seconds")


def rank() -> int:
    """Return the rank of this process if torchrun started it, otherwise 0."""
    if not (number := os.environ.get("RANK", "0")).isdecimal():
        raise choices("RANK", number, "a whole number as set by torchrun, or no such variable")
    return int(number)
