"""Run arms as processes on this machine: assign GPUs and cores, then fork a process or start an interpreter."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from asr_ablations.runs.process import LAUNCHED, LAUNCHER, announce_launcher, child_environment, command, main
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.processes import context, start_process
from asr_ablations.sweep.runner import Places
from asr_ablations.tools.checks import whole
from asr_ablations.tools.machine import available_memory, cores, gpu_memory, mps_is_on, visible_gpus
from asr_ablations.tools.signals import STOPPING
from asr_verdicts.errors import UsageError

MEMORY = 2 * 2**30
"""Assumed memory of an arm on a CPU, in bytes, if jobs is not set. The default model takes 0.7 GiB."""


@dataclass
class Slots:
    """Slots for `jobs` arms at a time. Up to `per_gpu` single-GPU arms share a GPU; arms with several GPUs share none.

    gpus: device names, as in CUDA_VISIBLE_DEVICES
    one_thread: whether each arm gets one thread instead of a share of the cores
    taken: GPUs of each running arm, by arm id
    """

    gpus: Sequence[str]
    jobs: int
    per_gpu: int
    one_thread: bool = False
    taken: dict[object, list[str]] = field(default_factory=dict)

    def free_gpus(self, gpus: int | None, ranks: int = 1) -> list[str] | None:
        """Return the least loaded GPUs for an arm, or None if it must wait. gpus: how many; None means one per rank."""
        gpus = min(ranks, len(self.gpus)) if gpus is None else gpus
        if len(self.taken) >= self.jobs:
            return None
        limit = self.per_gpu if gpus == 1 else 1
        arms = {gpu: [held for held in self.taken.values() if gpu in held] for gpu in self.gpus}
        shareable = [g for g in self.gpus if len(arms[g]) < limit and all(len(held) == 1 for held in arms[g])]
        free = sorted(shareable, key=lambda gpu: len(arms[gpu]))
        return free[:gpus] if len(free) >= gpus else None

    def threads(self, arms: int) -> int:
        """Return how many threads each of `arms` arms gets for all its ranks together, at most OMP_NUM_THREADS."""
        if self.one_thread:
            return 1
        limit = os.environ.get("OMP_NUM_THREADS", "")
        share = cores() // min(self.jobs, max(1, arms))
        return max(1, min(share, int(limit)) if limit.isdigit() and int(limit) else share)


AUTO = "auto"
"""Value of per_gpu that lets as many arms share a GPU as fit in its memory."""


def machine_slots(jobs: int | None, per_gpu: int | str, arms: Sequence[FrozenArm]) -> Slots:
    """Return this machine's slots for the given arms.

    per_gpu: number of arms that share a GPU; "auto" measures the arms' memory. jobs: number of arms at a time. By
    default, arms fill the GPUs. On a CPU, they fill the cores as far as the memory allows, with one thread per rank.
    This gives the highest total speed, and makes results independent of the number of cores and of other arms.
    """
    if jobs is not None:
        whole("hydra.launcher.jobs", jobs, 1)
    if per_gpu != AUTO:
        whole("hydra.launcher.per_gpu", per_gpu, 1, also=AUTO)
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
"""Bytes that CUDA takes in each process in addition to the measured memory. This value is assumed, not measured."""
RESERVE = 0.1
"""Fraction of a GPU's memory that stays free, because batches and allocators vary."""

_fits: dict[tuple[str, ...], int] = {}


def _fitting(arms: Sequence[FrozenArm], gpus: Sequence[str]) -> int:
    """Return how many arms of the largest kind fit on a GPU, at most one per core. Each kind is measured only once."""
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


class Machine(Places):
    """Runs arms on this machine. Raises UsageError for an arm that needs more GPUs than the machine has."""

    def __init__(self, script: Path, arms: Sequence[FrozenArm], slots: Slots) -> None:
        self.script, self.slots, self.threads = script, slots, slots.threads(len(arms))
        available = len(slots.gpus)
        for arm in arms:
            if arm.gpus is not None and arm.gpus > available:
                raise UsageError(f"arm {arm.name}: gpus={arm.gpus}, but this machine has {available}")
            if arm.gpus is None and 0 < available < arm.ranks:
                message = f"arm {arm.name}: ranks={arm.ranks}, but this machine has {available} GPUs; expected gpus=0"
                raise UsageError(message)

    def start(self, arm: FrozenArm) -> "ArmProcess | None":
        gpus = self.slots.free_gpus(arm.gpus, arm.ranks)
        if gpus is None:
            return None
        self.slots.taken[arm.id] = gpus
        return ArmProcess(self.script, arm, {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}, self.threads)

    def free(self, arm: FrozenArm) -> None:
        del self.slots.taken[arm.id]


Started: TypeAlias = tuple[int, Callable[[], int | None]]
"""A process id, and a function that returns the exit code of the process, or None while it runs."""


class ArmProcess:
    """A running arm, in a process forked from a server that has loaded torch, or in a new interpreter.

    The process is a session leader, so that it and its children can be stopped together. settings: environment
    variables. threads: number of threads of all ranks together. fork: whether to fork an arm with a single rank.
    """

    begun = True
    failure: str | None = None
    place = ""

    def __init__(
        self, script: Path, arm: FrozenArm, settings: Mapping[str, str], threads: int | None, *, fork: bool = True
    ) -> None:
        self.started = time.monotonic()
        arm.folder.mkdir(parents=True, exist_ok=True)
        # a forked process inherits the server's environment, which may contain an old WANDB_MODE
        wandb = {key: value for key, value in os.environ.items() if key == "WANDB_MODE"}
        settings = {**settings, **wandb, LAUNCHER: announce_launcher(), LAUNCHED: repr(time.time())}
        start = _fork if fork and arm.ranks == 1 else _start_interpreter
        self.pid, self.exit_code = start(script, arm, settings, threads)

    @property
    def seconds(self) -> float:
        """Seconds since the process started."""
        return time.monotonic() - self.started

    def stop(self) -> None:
        """Ask the process to write its checkpoint and end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process and its children now."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            # the process has ended, or is not yet a session leader
            if self.exit_code() is None:
                os.kill(self.pid, number)


def _fork(script: Path, arm: FrozenArm, settings: Mapping[str, str], threads: int | None) -> Started:
    arguments = (str(script), str(arm.config), str(arm.log), dict(settings), threads)
    process = context().Process(target=_run, args=arguments, name=arm.name)
    start_process(process)
    assert process.pid is not None
    return process.pid, lambda: process.exitcode


def _run(script: str, config: str, log: str, settings: dict[str, str], threads: int | None) -> None:
    """Run an arm in this forked process, with its output in the arm's log."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # the fork server blocks these signals
    sys.stdout.flush()
    with open(log, "ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)
    os.environ.update(settings)
    # a forked process ends without running W&B's finalizers, which would remove W&B's temporary folders
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        tempfile.tempdir = folder
        main(script, config, threads)


def _start_interpreter(script: Path, arm: FrozenArm, settings: Mapping[str, str], threads: int | None) -> Started:
    """Start an arm in a new interpreter, under torchrun if it has several ranks."""
    threads_per_rank = max(1, (threads or arm.ranks) // arm.ranks)
    limit = {"OMP_NUM_THREADS": str(threads_per_rank)} if arm.ranks > 1 else {}
    with arm.log.open("ab") as log:
        process = subprocess.Popen(
            command(script, arm.config, arm.ranks, threads_per_rank),
            env={**child_environment(), **limit, **settings},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process.pid, process.poll
