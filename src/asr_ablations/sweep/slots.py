"""Which GPUs and how many cores an arm gets."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.machine import cores


@dataclass
class Slots:
    """Places for arms: `jobs` at a time; a GPU takes `per_gpu` arms that want one GPU, or is one of several that an arm
    has for itself. gpus: what CUDA_VISIBLE_DEVICES calls them.
    """

    gpus: Sequence[str]
    jobs: int
    per_gpu: int
    taken: dict[object, list[str]] = field(default_factory=dict)

    def fits(self, gpus: int | None, ranks: int = 1) -> list[str] | None:
        """The GPUs that an arm wanting so many (None: one a rank, if there are any) would get now; None if it must
        wait.
        """
        gpus = min(ranks, len(self.gpus)) if gpus is None else gpus
        if len(self.taken) >= self.jobs:
            return None
        load = {gpu: sum(list(held).count(gpu) for held in self.taken.values()) for gpu in self.gpus}
        whole = {gpu for held in self.taken.values() if len(held) > 1 for gpu in held}
        most = self.per_gpu if gpus == 1 else 1
        free = sorted((gpu for gpu in self.gpus if gpu not in whole and load[gpu] < most), key=lambda gpu: load[gpu])
        return free[:gpus] if len(free) >= gpus else None

    def take(self, key: object, gpus: list[str]) -> None:
        """Keep these until `free`."""
        self.taken[key] = gpus

    def free(self, key: object) -> None:
        """Give back what `take` took."""
        del self.taken[key]


def slots(jobs: int | None, per_gpu: int) -> Slots:
    """Those of this machine: by default an arm a GPU, else one. Raises UsageError for values out of range."""
    for key, value in {"jobs": jobs, "per_gpu": per_gpu}.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise UsageError(f"hydra.launcher.{key}={value}: expected a whole number, 1 or more")
    gpus = visible_gpus()
    return Slots(gpus, jobs or max(1, len(gpus) * per_gpu), per_gpu)


def visible_gpus() -> list[str]:
    """Names of the GPUs that this process may use. Asks the driver, not torch: a process forked after CUDA has begun
    cannot use it.
    """
    if (named := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    import pynvml

    try:
        pynvml.nvmlInit()
        return [str(i) for i in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return []


def share_of_cores(jobs: int) -> int:
    """Threads for each of so many arms at a time; OMP_NUM_THREADS is the most."""
    there = cores()
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(there // jobs, int(limit) if limit.isdigit() and int(limit) else there))
