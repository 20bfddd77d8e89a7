"""Launch one arm in a separate process, when this machine has a place and GPUs for it."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from asr_ablations.runs.process import LAUNCHED, LAUNCHER, announce_launcher, child_environment, command, main
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.gpu_slots import Slots
from asr_ablations.sweep.processes import context, start_process
from asr_ablations.sweep.runner import Places
from asr_ablations.tools.signals import STOPPING
from asr_verdicts.errors import UsageError

Started: TypeAlias = tuple[int, Callable[[], int | None]]
"""The id of a process, and a function that returns its exit code, or None while it runs."""


class Machine(Places):
    """Places on this machine. Raises UsageError for an arm that needs more GPUs than the machine has."""

    def __init__(self, script: Path, arms: Sequence[FrozenArm], slots: Slots) -> None:
        self.script, self.slots, self.threads = script, slots, slots.threads(len(arms))
        available = len(slots.gpus)
        for arm in arms:
            if arm.gpus is not None and arm.gpus > available:
                raise UsageError(f"arm {arm.name}: gpus={arm.gpus}, this machine has {available}")
            if arm.gpus is None and 0 < available < arm.ranks:
                message = f"arm {arm.name}: ranks={arm.ranks}, this machine has {available} GPUs; expected gpus=0"
                raise UsageError(message)

    def start(self, arm: FrozenArm) -> "ArmProcess | None":
        gpus = self.slots.free_gpus(arm.gpus, arm.ranks)
        if gpus is None:
            return None
        self.slots.taken[arm.id] = gpus
        return ArmProcess(self.script, arm, {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}, self.threads)

    def free(self, arm: FrozenArm) -> None:
        del self.slots.taken[arm.id]


class ArmProcess:
    """A running arm: forked from a process with torch loaded, or (always with several ranks) a new interpreter.

    It leads its own session, so that it and its children stop together. threads: for all its ranks together.
    """

    begun = True
    failure: str | None = None
    place = ""

    def __init__(
        self, script: Path, arm: FrozenArm, settings: Mapping[str, str], threads: int | None, *, fork: bool = True
    ) -> None:
        self.started = time.monotonic()
        arm.folder.mkdir(parents=True, exist_ok=True)
        # a forked process has the environment variables of its server
        wandb = {key: value for key, value in os.environ.items() if key == "WANDB_MODE"}
        settings = {**settings, **wandb, LAUNCHER: announce_launcher(), LAUNCHED: repr(time.time())}
        start = _fork if fork and arm.ranks == 1 else _start_interpreter
        self.pid, self.exit_code = start(script, arm, settings, threads)

    @property
    def seconds(self) -> float:
        """Seconds since the process was started."""
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
            # it does not lead its session yet, or has ended
            if self.exit_code() is None:
                os.kill(self.pid, number)


def _fork(script: Path, arm: FrozenArm, settings: Mapping[str, str], threads: int | None) -> Started:
    arguments = (str(script), str(arm.config), str(arm.log), dict(settings), threads)
    process = context().Process(target=_run, args=arguments, name=arm.name)
    start_process(process)
    assert process.pid is not None
    return process.pid, lambda: process.exitcode


def _run(script: str, config: str, log: str, settings: dict[str, str], threads: int | None) -> None:
    """Run the arm in the forked process."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # its server holds these back
    sys.stdout.flush()
    with open(log, "ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)
    os.environ.update(settings)
    # a forked process ends without running W&B's finalizers, which remove its temporary folders
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
