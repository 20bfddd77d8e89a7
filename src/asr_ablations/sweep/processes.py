"""Processes that run arms: forked from one that has torch loaded, or under torchrun."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from asr_ablations.runs.process import LAUNCHED, child_environment, command, main
from asr_ablations.runs.watchdog import LAUNCHER, announce_launcher
from asr_ablations.sweep.arm import Arm

PRELOAD = [
    *("torch", "torchaudio", "pytorch_lightning", "torchmetrics.text", "wandb", "asr_ablations.experiment.run"),
    *(
        "asr_ablations.components.data.synthetic",
        "asr_ablations.components.model.ds2",
        "asr_ablations.components.logger.wandb",
        "scipy.special",
    ),
]
"""Imported once a sweep. Nothing here may touch CUDA: a process that was forked after that cannot use it."""


class ArmProcess:
    """A running arm: its process is a session of its own, so that it and all its children can be told to stop, or be
    killed, together. Its output goes into the arm's log.
    """

    def __init__(self, script: Path, arm: Arm, settings: Mapping[str, str], threads: int | None) -> None:
        self.arm, self.began = arm, time.monotonic()
        arm.folder.mkdir(parents=True, exist_ok=True)
        settings = {**settings, LAUNCHER: announce_launcher(), LAUNCHED: repr(time.time())}
        start = _torchrun if arm.ranks > 1 else _fork
        self.pid, self.exit_code = start(script, arm, settings, threads)

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self.began

    def stop(self) -> None:
        """Ask it to write its checkpoint and end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and its children now."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            # not yet a session of its own, or gone
            if self.exit_code() is None:
                os.kill(self.pid, number)


Started = tuple[int, Callable[[], int | None]]


def _fork(script: Path, arm: Arm, settings: Mapping[str, str], threads: int | None) -> Started:
    arguments = (str(script), str(arm.config), str(arm.log), dict(settings), threads)
    process = context().Process(target=_run, args=arguments, name=arm.name)
    process.start()
    assert process.pid is not None
    return process.pid, lambda: process.exitcode


def _torchrun(script: Path, arm: Arm, settings: Mapping[str, str], threads: int | None) -> Started:
    each = max(1, (threads or arm.ranks) // arm.ranks)
    with arm.log.open("ab") as log:
        process = subprocess.Popen(
            command(script, arm.config, arm.ranks, each),
            env={**child_environment(), "OMP_NUM_THREADS": str(each), **settings},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process.pid, process.poll


def context() -> Any:
    """multiprocessing over a server process that has everything heavy imported already."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(PRELOAD)
    # the server imports before anything sets its path
    os.environ["PYTHONPATH"] = child_environment()["PYTHONPATH"]
    return found


def ask(question: Callable[[Any], Any], argument: Any) -> Any:
    """The answer of `question(argument)` from a process of its own, whose output goes where ours does. Raises what it
    raised, RuntimeError if it died.
    """
    ours, theirs = multiprocessing.Pipe()
    process = context().Process(target=_answer, args=(question, argument, theirs, announce_launcher()))
    process.start()
    theirs.close()
    try:
        answer = ours.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"a helping process died with exit code {process.exitcode}") from None
    finally:
        if process.is_alive():
            process.join(timeout=10)
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _answer(question: Callable[[Any], Any], argument: Any, connection: Connection, launcher: str) -> None:
    from asr_ablations.runs.watchdog import follow_launcher

    os.environ[LAUNCHER] = launcher
    follow_launcher()
    try:
        connection.send(question(argument))
    except Exception as error:
        connection.send(error)


def _run(script: str, config: str, log: str, settings: dict[str, str], threads: int | None) -> None:
    """In the forked process."""
    os.setsid()
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    sys.stdout.flush()
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)
    os.environ.update(settings)
    main(script, config, threads)
