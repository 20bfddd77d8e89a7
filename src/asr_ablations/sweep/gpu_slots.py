"""Assign GPUs and cores to arms."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.tools.checks import is_whole, whole
from asr_ablations.tools.machine import available_memory, cores, gpu_memory, mps_is_on, visible_gpus
from asr_verdicts.errors import choices

MEMORY = 2 * 2**30
"""Assumed bytes of memory of an arm on a CPU, if jobs is not set; the default model takes 0.7 GiB."""


@dataclass
class Slots:
    """Places for `jobs` arms at a time. Up to `per_gpu` arms of one GPU share it; arms of several GPUs do not share.

    gpus: names in CUDA_VISIBLE_DEVICES. one_thread: whether each arm has one thread instead of a share of the cores.
    taken: the GPUs of each running arm.
    """

    gpus: Sequence[str]
    jobs: int
    per_gpu: int
    one_thread: bool = False
    taken: dict[object, list[str]] = field(default_factory=dict)

    def free_gpus(self, gpus: int | None, ranks: int = 1) -> list[str] | None:
        """Return the least loaded GPUs for an arm, by default one per rank if available, or None if it has to wait."""
        gpus = min(ranks, len(self.gpus)) if gpus is None else gpus
        if len(self.taken) >= self.jobs:
            return None
        limit = self.per_gpu if gpus == 1 else 1
        arms = {gpu: [held for held in self.taken.values() if gpu in held] for gpu in self.gpus}
        shareable = [g for g in self.gpus if len(arms[g]) < limit and all(len(held) == 1 for held in arms[g])]
        free = sorted(shareable, key=lambda gpu: len(arms[gpu]))
        return free[:gpus] if len(free) >= gpus else None

    def threads(self, arms: int) -> int:
        """Return an arm's threads, for all its ranks, in a sweep of `arms` arms; at most OMP_NUM_THREADS."""
        if self.one_thread:
            return 1
        limit = os.environ.get("OMP_NUM_THREADS", "")
        share = cores() // min(self.jobs, max(1, arms))
        return max(1, min(share, int(limit)) if limit.isdigit() and int(limit) else share)


AUTO = "auto"
"""The value of per_gpu that lets as many arms share a GPU as its memory holds."""


def machine_slots(jobs: int | None, per_gpu: int | str, arms: Sequence[FrozenArm]) -> Slots:
    """Return this machine's slots for these arms. per_gpu: arms that share a GPU; "auto" measures them.

    jobs: arms at a time. By default as many as the GPUs take; on a CPU one rank per core, with one thread each, if the
    memory is large enough. This is fastest in total, and the last bits depend neither on the machine nor on other arms.
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
        memory = available_memory()
        processes = cores() if memory is None else min(cores(), memory // MEMORY)
        jobs = max(1, processes // max((arm.ranks for arm in arms), default=1))
        return Slots(gpus, jobs, per_gpu, one_thread=True)
    return Slots(gpus, jobs or len(gpus) * per_gpu, per_gpu)


CONTEXT = 2**29
"""Bytes that CUDA takes in each process in addition to the measured memory: an assumption, not measured on a GPU."""
RESERVE = 0.1
"""Share of a GPU's memory that stays free, because batches and allocators vary."""

_fits: dict[tuple[str, ...], int] = {}


def _fitting(arms: Sequence[FrozenArm], gpus: Sequence[str]) -> int:
    """Return how many arms fit on a GPU, by the largest one's memory, at most one per core. Measure each kind once."""
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
        sizes = f"{count} arms per GPU of {memory / 2**30:.1f} GiB (the largest arm takes {largest / 2**30:.1f} GiB)"
        print(f"hydra.launcher.per_gpu=auto: {sizes}; they compute {together}", flush=True)
    return count
