"""Readings of the machine for one training process: processor, memory, disk, GPUs."""

import warnings
from typing import Any

import psutil

MIB, GIB = 2**20, 2**30


class Host:
    """Processor, memory and disk of this process and the processes it started (those that read audio)."""

    CHILDREN_EVERY = 10
    """Readings between two looks for new children, which go through every process of the machine."""

    def __init__(self) -> None:
        self._processes = [psutil.Process()]
        self._cores = psutil.cpu_count() or 1
        self._readings = 0
        self._seconds: dict[int, float] = {}
        self._bytes: dict[int, int] = {}

    def read(self, seconds: float) -> dict[str, float | None]:
        """Means over the `seconds` since the last reading; memory as it is now.

        cpu_percent: of all cores; host_memory_gib: resident, pages that processes share counted in each;
        disk_read_mib: what came from the disk and not from the page cache, None where the system does not tell.
        """
        if self._readings % self.CHILDREN_EVERY == 0:
            self._processes = [self._processes[0], *self._processes[0].children(recursive=True)]
        self._readings += 1
        busy, resident, read = 0.0, 0, None
        for process in self._processes:
            try:
                with process.oneshot():
                    busy += self._busy(process)
                    resident += process.memory_info().rss
                    found = self._read_bytes(process)
            except psutil.Error:  # it ended meanwhile
                continue
            read = read if found is None else (read or 0) + found
        percent = 100 * busy / max(seconds, 1e-6) / self._cores
        return {
            "cpu_percent": min(100.0, percent),
            "host_memory_gib": resident / GIB,
            "disk_read_mib": None if read is None else read / MIB,
        }

    def _busy(self, process: psutil.Process) -> float:
        times = process.cpu_times()
        now = times.user + times.system
        before = self._seconds.get(process.pid, now)
        self._seconds[process.pid] = now
        return now - before

    def _read_bytes(self, process: psutil.Process) -> int | None:
        try:
            now = process.io_counters().read_bytes
        except (AttributeError, psutil.AccessDenied, NotImplementedError):
            return None  # macOS does not count, and a container may not tell: the column stays empty, as documented
        before = self._bytes.get(process.pid, now)
        self._bytes[process.pid] = now
        return now - before


class Gpus:
    """NVIDIA's own counters of the GPUs with these indices in torch; None for each without a driver."""

    def __init__(self, indices: list[int]) -> None:
        self._handles: list[Any] = []
        if not indices:
            return
        try:
            import pynvml
            import torch

            pynvml.nvmlInit()
            # by identity, since torch's indices follow CUDA_VISIBLE_DEVICES and NVML's do not
            names = [f"GPU-{torch.cuda.get_device_properties(index).uuid}" for index in indices]
            self._handles = [pynvml.nvmlDeviceGetHandleByUUID(name) for name in names]
            self._nvml = pynvml
        except Exception as error:  # whatever a driver answers, training goes on
            warnings.warn(f"GPU utilisation is not recorded: {type(error).__name__}: {error}", stacklevel=2)

    def read(self) -> dict[str, float | str | None]:
        """gpu_percent: mean over the GPUs of the time in which a kernel ran, gpu_percents: of each, parted by spaces;
        memory of all processes on them and power, summed.
        """
        percent = [self._ask(lambda h: self._nvml.nvmlDeviceGetUtilizationRates(h).gpu, h) for h in self._handles]
        memory = [self._ask(lambda h: self._nvml.nvmlDeviceGetMemoryInfo(h).used / GIB, h) for h in self._handles]
        power = [self._ask(lambda h: self._nvml.nvmlDeviceGetPowerUsage(h) / 1000, h) for h in self._handles]
        mean = _total(percent)
        return {
            "gpu_percent": None if mean is None else mean / len(percent),
            "gpu_percents": None if mean is None else " ".join(f"{one:g}" for one in percent),
            "gpu_memory_gib": _total(memory),
            "gpu_power_watts": _total(power),
        }

    def _ask(self, question: Any, handle: Any) -> float | None:
        try:
            return float(question(handle))
        except self._nvml.NVMLError:  # not every GPU tells everything
            return None


def _total(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
