"""Which GPUs and how many cores an arm gets."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from asr_ablations.tools.checks import whole
from asr_ablations.tools.machine import cores


@dataclass
class Slots:
    """Places for `jobs` arms at a time. A GPU takes up to `per_gpu` arms that need one GPU each; an arm that needs
    several GPUs has them for itself.

    gpus: their names in CUDA_VISIBLE_DEVICES; taken: the GPUs of each arm that holds a place.
    """

    gpus: Sequence[str]
    jobs: int
    per_gpu: int
    taken: dict[object, list[str]] = field(default_factory=dict)

    def free_gpus(self, gpus: int | None, ranks: int = 1) -> list[str] | None:
        """GPUs for an arm that needs `gpus` of them (None: one per rank if available), the least loaded first, or None
        if it has to wait.
        """
        gpus = min(ranks, len(self.gpus)) if gpus is None else gpus
        if len(self.taken) >= self.jobs:
            return None
        load = {gpu: sum(list(held).count(gpu) for held in self.taken.values()) for gpu in self.gpus}
        reserved = {gpu for held in self.taken.values() if len(held) > 1 for gpu in held}
        limit = self.per_gpu if gpus == 1 else 1
        free = sorted((g for g in self.gpus if g not in reserved and load[g] < limit), key=lambda gpu: load[gpu])
        return free[:gpus] if len(free) >= gpus else None

    def take(self, key: object, gpus: list[str]) -> None:
        """Reserve a place and these GPUs until `free(key)`."""
        self.taken[key] = gpus

    def free(self, key: object) -> None:
        """Give back the place and the GPUs of `take(key)`."""
        del self.taken[key]


def machine_slots(jobs: int | None, per_gpu: int) -> Slots:
    """Slots of this machine.

    jobs: arms at a time, None for as many as its GPUs take, or one without GPUs; per_gpu: arms that share a GPU. Raises
    UsageError for values out of range.
    """
    if jobs is not None:
        whole("hydra.launcher.jobs", jobs, 1)
    whole("hydra.launcher.per_gpu", per_gpu, 1)
    gpus = visible_gpus()
    return Slots(gpus, jobs or max(1, len(gpus) * per_gpu), per_gpu)


def visible_gpus() -> list[str]:
    """Names of the GPUs that this process may use. They come from the driver and not from torch: a process that is
    forked after CUDA was initialised cannot use it.
    """
    if (names := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name.strip() for name in names.split(",") if name.strip() not in ("", "-1")]
    import pynvml

    try:
        pynvml.nvmlInit()
        return [str(i) for i in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return []


def share_of_cores(jobs: int) -> int:
    """Threads for each of `jobs` arms that run at the same time, at most OMP_NUM_THREADS."""
    available = cores()
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(available // jobs, int(limit) if limit.isdigit() and int(limit) else available))
