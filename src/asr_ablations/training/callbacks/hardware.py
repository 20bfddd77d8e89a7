"""Read the machine's counters for one training process: processor, memory, disk, GPUs."""

from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil
import torch

MIB, GIB = 2**20, 2**30


class Host:
    """Processor, memory and disk use of this process and its children, which read audio."""

    CHILDREN_EVERY = 10
    """Readings between two searches for new children, which visit every process of the machine."""

    def __init__(self) -> None:
        self._processes = [psutil.Process()]
        self._cores = psutil.cpu_count() or 1
        self._readings = 0
        self._before: dict[tuple[int, str], float] = {}

    def read(self, seconds: float) -> dict[str, float | None]:
        """Return means over the `seconds` since the last reading, and the current memory.

        cpu_percent: 100 is all cores. host_memory_gib: resident memory; shared pages count in each process.
        disk_read_mib: data from the disk, not from the page cache; None if the system does not report it.
        """
        if self._readings % self.CHILDREN_EVERY == 0:
            self._processes = [self._processes[0], *self._processes[0].children(recursive=True)]
        self._readings += 1
        busy, resident, read = 0.0, 0, None
        for process in self._processes:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    busy += self._added(process, "busy", times.user + times.system)
                    resident += process.memory_info().rss
                    with suppress(AttributeError, psutil.AccessDenied, NotImplementedError):
                        # macOS has no such counter, and a container may hide it
                        read = (read or 0) + self._added(process, "read", process.io_counters().read_bytes)
            except psutil.Error:  # the process has ended
                continue
        percent = 100 * busy / max(seconds, 1e-6) / self._cores
        return {
            "cpu_percent": min(100.0, percent),
            "host_memory_gib": resident / GIB,
            "disk_read_mib": None if read is None else read / MIB,
        }

    def _added(self, process: psutil.Process, counter: str, now: float) -> float:
        """Return the increase of a process's counter since the last reading."""
        before = self._before.get((process.pid, counter), now)
        self._before[process.pid, counter] = now
        return now - before


def read_gpus(indices: Sequence[int]) -> dict[str, float | str | None]:
    """Return the percentage of time in which a kernel ran, mean and per GPU, and total memory and power.

    indices: of torch. A counter that a GPU or its driver lacks is None.
    """
    percents = _read_each(torch.cuda.utilization, indices)
    memory = _read_each(torch.cuda.device_memory_used, indices)
    milliwatts = _read_each(torch.cuda.power_draw, indices)
    return {
        "gpu_percent": sum(percents) / len(percents) if percents else None,
        "gpu_percents": " ".join(f"{share:g}" for share in percents) or None,
        "gpu_memory_gib": sum(memory) / GIB if memory else None,
        "gpu_power_watts": sum(milliwatts) / 1000 if milliwatts else None,
    }


def _read_each(counter: Callable[[int], int], indices: Sequence[int]) -> list[int]:
    try:
        return [counter(index) for index in indices]
    except Exception:  # whatever a driver does, training continues
        return []
