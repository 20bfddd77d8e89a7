"""Read the machine's counters for one training process: processor, memory, disk, GPUs."""

import warnings
from collections.abc import Callable
from contextlib import suppress

import psutil

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


class Gpus:
    """NVIDIA's counters of the GPUs with these indices in torch. Without a driver, every counter is None."""

    def __init__(self, indices: list[int]) -> None:
        self._handles: list[object] = []
        if not indices:
            return
        try:
            import pynvml
            import torch

            pynvml.nvmlInit()
            # by UUID, because torch's indices follow CUDA_VISIBLE_DEVICES and NVML's do not
            names = [f"GPU-{torch.cuda.get_device_properties(index).uuid}" for index in indices]
            self._handles = [pynvml.nvmlDeviceGetHandleByUUID(name) for name in names]
            self._nvml = pynvml
        except Exception as error:  # whatever a driver does, training continues
            warnings.warn(f"GPU utilisation is not recorded: {type(error).__name__}: {error}", stacklevel=2)

    def read(self) -> dict[str, float | str | None]:
        """Return the percentage of time in which a kernel ran, mean and per GPU, and total memory and power."""
        percent = self._counters(lambda handle: self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        memory = self._counters(lambda handle: self._nvml.nvmlDeviceGetMemoryInfo(handle).used / GIB)
        power = self._counters(lambda handle: self._nvml.nvmlDeviceGetPowerUsage(handle) / 1000)
        mean = _total(percent)
        return {
            "gpu_percent": None if mean is None else mean / len(percent),
            "gpu_percents": None if mean is None else " ".join(f"{share:g}" for share in percent),
            "gpu_memory_gib": _total(memory),
            "gpu_power_watts": _total(power),
        }

    def _counters(self, read: Callable[[object], float]) -> list[float | None]:
        counters: list[float | None] = []
        for handle in self._handles:
            try:
                counters.append(float(read(handle)))
            except self._nvml.NVMLError:  # not every GPU has every counter
                counters.append(None)
        return counters


def _total(values: list[float | None]) -> float | None:
    readings = [value for value in values if value is not None]
    return sum(readings) if readings and len(readings) == len(values) else None
