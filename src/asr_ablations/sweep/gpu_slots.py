"""Assignment of GPUs and cores to arms."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.tools.checks import is_whole, whole
from asr_ablations.tools.machine import available_memory, cores, gpu_memory, mps_is_on, visible_gpus
from asr_verdicts.errors import choices

MEMORY = 2 * 2**30
"""Bytes of memory that an arm on a CPU is taken to need, if jobs is not set; the default model takes 0.7 GiB."""


@dataclass
class Slots:
    """Places for `jobs` arms at a time. A GPU takes up to `per_gpu` arms of one GPU; others have theirs alone.

    gpus: their names in CUDA_VISIBLE_DEVICES; one_thread: whether an arm has one thread, and no share of the cores.
    """

    gpus: Sequence[str]
    jobs: int
    per_gpu: int
    one_thread: bool = False
    taken: dict[object, list[str]] = field(default_factory=dict)

    def free_gpus(self, gpus: int | None, ranks: int = 1) -> list[str] | None:
        """The least loaded GPUs for an arm, by default one per rank if there are any; None if it has to wait."""
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

    def threads(self, arms: int) -> int:
        """Threads of an arm, for all its ranks together, where the sweep has `arms` of them."""
        return 1 if self.one_thread else share_of_cores(min(self.jobs, max(1, arms)))


AUTO = "auto"
"""The value of per_gpu by which arms share a GPU as far as its memory goes."""


def machine_slots(jobs: int | None, per_gpu: int | str, arms: Sequence[FrozenArm]) -> Slots:
    """Slots of this machine for these arms. per_gpu: arms that share a GPU; "auto" measures them.

    jobs: arms at a time, by default as many as the GPUs take; on a CPU a rank per core, as far as the memory goes, with
    a thread each: that is fastest together, and the last bits do not depend on the machine or on the other arms.
    """
    if jobs is not None:
        whole("hydra.launcher.jobs", jobs, 1)
    if per_gpu != AUTO and not is_whole(per_gpu, 1):
        raise choices("hydra.launcher.per_gpu", per_gpu, "a whole number, 1 or more, or auto")
    gpus = visible_gpus()
    on_cpu = all(not gpus or arm.gpus == 0 for arm in arms)
    if isinstance(per_gpu, str):
        per_gpu = 1 if on_cpu else _fitting(arms, gpus)
    if jobs is None and on_cpu:
        memory, ranks = available_memory(), max((arm.ranks for arm in arms), default=1)
        processes = cores() if memory is None else min(cores(), memory // MEMORY)
        return Slots(gpus, max(1, processes // ranks), per_gpu, one_thread=True)
    return Slots(gpus, jobs or len(gpus) * per_gpu, per_gpu)


CONTEXT = 2**29
"""Bytes that CUDA takes for itself in each process, beside what is measured: an assumption, measured on no GPU yet."""
RESERVE = 0.1
"""Share of a GPU's memory that stays free: batches differ, and so does what an allocator keeps."""

_fits: dict[tuple[str, ...], int] = {}


def _fitting(arms: Sequence[FrozenArm], gpus: Sequence[str]) -> int:
    """Arms that share a GPU, by the memory of the largest, at most one per core. Each kind is measured once."""
    from asr_ablations.sweep.plan import measure_arms

    kinds = {arm.kind: arm for arm in arms if arm.gpus in (None, 1) and arm.ranks == 1}
    unknown = [arm for kind, arm in kinds.items() if kind not in _fits]
    for arm, cost in zip(unknown, measure_arms(unknown, threads=1), strict=True):
        _fits[arm.kind] = cost.memory
    if not kinds or not (memory := gpu_memory()):
        return 1
    largest = max(_fits[kind] for kind in kinds) + CONTEXT
    count = max(1, min(int((1 - RESERVE) * memory // largest), cores() // len(gpus)))
    if unknown:
        together = "at the same time (MPS is on)" if mps_is_on() else "in turn (MPS is off)"
        print(
            f"hydra.launcher.per_gpu=auto: {count} arms to a GPU of {memory / 2**30:.1f} GiB, of which the largest "
            f"takes {largest / 2**30:.1f}; they compute {together}",
            flush=True,
        )
    return count


def share_of_cores(jobs: int) -> int:
    """Threads for each of `jobs` arms that run at the same time, at most OMP_NUM_THREADS."""
    available = cores()
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(available // jobs, int(limit) if limit.isdigit() and int(limit) else available))
