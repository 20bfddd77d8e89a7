"""An arm on Ray, as its sweep sees it and as the machine runs it that Ray has chosen."""

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import ray
from ray.exceptions import RayError, RayTaskError

from asr_ablations.runs.lease import EXPIRY, HEARTBEAT, LEASE_HELD_EXIT_CODE, owner
from asr_ablations.runs.process import GRACE
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.processes import ArmProcess, in_interpreter
from asr_ablations.tools.signals import STOPPED_EXIT_CODES, let_in

POLL = 0.1
"""Seconds between two looks at the process of an arm."""
ANSWER = 5.0
"""Seconds that a worker has to answer before it is killed."""
GOING_DOWN = 5.0
"""Seconds that the end of an arm by a signal is kept back: a machine that goes down may end it before its worker, and
the arm shall go on elsewhere then.
"""
STOPPED_EXIT_CODE = 128 + signal.SIGTERM


@dataclass(frozen=True)
class Job:
    """The start of an arm on any machine. folder: the current folder, to which relative paths refer."""

    script: Path
    arm: FrozenArm
    folder: Path
    environment: Mapping[str, str]
    threads: int


class Worker:
    """The actor of an arm, on the machine that Ray has chosen. Its methods run in threads beside one another."""

    def __init__(self) -> None:
        self._process: ArmProcess | None = None
        self._stopped = False

    def begin(self) -> None:
        """Returns once there is a machine."""

    def run(self, job: Job) -> tuple[int, int]:
        """The exit code of the arm, and how many processes this machine killed meanwhile for lack of memory.

        A worker that was lost leaves the arm's process behind for a moment, or its lease: who comes after it waits.
        """
        os.chdir(job.folder)
        os.environ.pop("OMP_NUM_THREADS", None)  # Ray's own number, where the user gives none
        os.environ.update(job.environment)
        context = ray.get_runtime_context()
        gpus = ",".join(context.get_accelerator_ids().get("GPU", []))
        patience = time.monotonic() + (GRACE + EXPIRY if context.was_current_actor_reconstructed else 0.0)
        while True:
            code, kills = self._run(job, gpus)
            if code != LEASE_HELD_EXIT_CODE or time.monotonic() > patience:
                return code, kills
            while owner(job.arm.folder) is not None and time.monotonic() < patience and not self._stopped:
                time.sleep(HEARTBEAT)

    def _run(self, job: Job, gpus: str) -> tuple[int, int]:
        if self._stopped:
            return STOPPED_EXIT_CODE, 0
        settings = {"CUDA_VISIBLE_DEVICES": gpus}
        with let_in():  # Ray's processes hold them back
            process = ArmProcess(job.script, job.arm, settings, job.threads, start=in_interpreter)
        self._process = process
        if self._stopped:
            process.stop()
        while (code := process.exit_code()) is None:
            time.sleep(POLL)
        process.kill()  # what it may have left behind in its session
        if (code < 0 or code in STOPPED_EXIT_CODES) and not self._stopped:
            time.sleep(GOING_DOWN)
        return code, process.memory_kills

    def stop(self) -> None:
        """Let the arm write its checkpoint and end."""
        self._stopped = True
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End the arm now."""
        self._stopped = True
        if self._process is not None:
            self._process.kill()


class RemoteArm:
    """An arm on Ray. options: what its actor needs, and how often it is started again."""

    place = ""

    def __init__(self, job: Job, options: Mapping[str, Any]) -> None:
        self.failure: str | None = None
        actor = cast(Any, ray.remote)(max_concurrency=4, **options)(Worker)  # ray's types know no options by name
        self._worker = actor.remote()
        self._begin, self._end = self._worker.begin.remote(), self._worker.run.remote(job)
        self._began: float | None = None
        self._result: tuple[int, int] | None = None

    @property
    def begun(self) -> bool:
        if self._began is None and _is_ready(self._begin):
            self._began = time.monotonic()
        return self._began is not None

    @property
    def seconds(self) -> float:
        """Seconds since Ray had a machine for it."""
        return time.monotonic() - self._began if self.begun and self._began is not None else 0.0

    @property
    def memory_kills(self) -> int:
        return self._result[1] if self._result is not None else 0

    def exit_code(self) -> int | None:
        if self._result is None and _is_ready(self._end):
            try:
                self._result = ray.get(self._end)
            except RayError as error:
                self.failure = f"Ray: {reason(error)}"
                self._result = 1, 0
        return None if self._result is None else self._result[0]

    def stop(self) -> None:
        if self.begun:
            self._worker.stop.remote()
        else:
            self._result = STOPPED_EXIT_CODE, 0
            self.kill()

    def kill(self) -> None:
        if self._result is None and self.begun:
            ray.wait([self._worker.kill.remote(), self._end], num_returns=2, timeout=ANSWER)
        self._result = self._result or (-signal.SIGKILL, 0)
        ray.kill(self._worker)


def _is_ready(reference: Any) -> bool:
    return bool(ray.wait([reference], timeout=0)[0])


def reason(error: BaseException) -> str:
    """One line of an error of Ray's; what a worker raised stands behind its traceback."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1 if isinstance(error, RayTaskError) else 0]
