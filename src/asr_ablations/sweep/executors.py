"""Executors start the arms of a sweep: on this machine, or on others that a cluster assigns."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.gpu_slots import Slots, machine_slots
from asr_ablations.sweep.processes import ArmProcess
from asr_verdicts.errors import UsageError


class Process(Protocol):
    """An arm that was started, here or on another machine.

    begun: false while it still waits for its machine; seconds: since it has begun; memory_kills: processes that the
    system killed there for lack of memory meanwhile; failure: why it ended, where its exit code does not say; place:
    where it runs or waits, in a few words, "" for this machine.
    """

    @property
    def begun(self) -> bool: ...
    @property
    def seconds(self) -> float: ...
    @property
    def memory_kills(self) -> int: ...
    @property
    def failure(self) -> str | None: ...
    @property
    def place(self) -> str: ...

    def exit_code(self) -> int | None:
        """None while it runs."""

    def stop(self) -> None:
        """Ask the process to write its checkpoint and end."""

    def kill(self) -> None:
        """End the process and its children now, and what it may have left behind."""


class Places(Protocol):
    """Gives places to arms. detach: the command ends once each has its place."""

    detach: bool

    def start(self, arm: FrozenArm) -> Process | None:
        """Start an arm; None where it has to wait."""

    def free(self, arm: FrozenArm) -> None:
        """Take back the place of an arm that has ended."""

    def left(self) -> str | None:
        """What to print where the command ends and its arms go on without it; None where they end with it."""


class Machine:
    """This machine's GPUs and cores. Raises UsageError for an arm that needs more GPUs than it has."""

    detach = False

    def __init__(self, script: Path, arms: Sequence[FrozenArm], slots: Slots) -> None:
        self.script, self.slots, self.threads = script, slots, slots.threads(len(arms))
        for arm in arms:
            _check_gpus(arm, len(slots.gpus))

    def start(self, arm: FrozenArm) -> ArmProcess | None:
        gpus = self.slots.free_gpus(arm.gpus, arm.ranks)
        if gpus is None:
            return None
        self.slots.take(arm.id, gpus)
        return ArmProcess(self.script, arm, {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}, self.threads)

    def free(self, arm: FrozenArm) -> None:
        self.slots.free(arm.id)

    def left(self) -> None:
        return None


def this_machine(script: Path, arms: Sequence[FrozenArm], jobs: int | None, per_gpu: int | str) -> Machine:
    """Places on this machine; jobs, per_gpu: as in `machine_slots`."""
    return Machine(script, arms, machine_slots(jobs, per_gpu, arms))


def _check_gpus(arm: FrozenArm, available: int) -> None:
    if arm.gpus is not None and arm.gpus > available:
        raise UsageError(f"arm {arm.name}: gpus={arm.gpus}, this machine has {available}")
    if arm.gpus is None and available and arm.ranks > available:
        raise UsageError(f"arm {arm.name}: ranks={arm.ranks}, this machine has {available} GPUs; expected gpus=0")
