"""The processes of arms: forked from one that has torch loaded, or interpreters of their own, as under torchrun."""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TypeAlias, TypeVar

from asr_ablations.runs.process import LAUNCHED, LAUNCHER, announce_launcher, child_environment, command, main
from asr_ablations.sweep.arm import FrozenArm, memory_kills
from asr_ablations.tools.signals import STOPPING, held_back
from asr_ablations.tools.streams import waiting

PRELOAD = [
    "asr_ablations.commands",  # first: it keeps what nobody uses out of the others
    "asr_ablations.sweep.server",
    "torch",
    "torchaudio",
    "pytorch_lightning",
    "torchmetrics.text",
    "wandb",
    "wandb.sdk.launch.inputs.internal",  # which every wandb.init imports: 0.8 s
    "asr_ablations.experiment.run",
    "asr_ablations.components.data.synthetic",
    "asr_ablations.components.model.ds2",
    "asr_ablations.components.logger.wandb",
    "scipy.special",
]
"""Modules that are imported once per sweep. None of them may touch CUDA: a process that is forked after that cannot
use it.
"""

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Started: TypeAlias = tuple[int, Callable[[], int | None]]
"""The id of a process, and a function that returns its exit code, None while it runs."""
Start: TypeAlias = Callable[[Path, FrozenArm, Mapping[str, str], int | None], Started]
"""Starts the process of an arm: with the script, environment variables of its own, and threads."""


class ArmProcess:
    """A running arm. Its process leads a session of its own, so that it and all its children can be stopped or killed
    together. Its output goes into the arm's log.

    settings: environment variables of its own; threads: for all its ranks together; start: how, by default forked.
    """

    begun = True
    failure: str | None = None
    place = ""

    def __init__(
        self,
        script: Path,
        arm: FrozenArm,
        settings: Mapping[str, str],
        threads: int | None,
        start: Start | None = None,
    ) -> None:
        self.started, self._memory_kills = time.monotonic(), memory_kills()
        arm.folder.mkdir(parents=True, exist_ok=True)
        # a forked process has the variables that its server was started with
        if "WANDB_MODE" in os.environ:
            settings = {**settings, "WANDB_MODE": os.environ["WANDB_MODE"]}
        settings = {**settings, LAUNCHER: announce_launcher(), LAUNCHED: repr(time.time())}
        start = start or (in_interpreter if arm.ranks > 1 else _fork)
        self.pid, self._poll = start(script, arm, settings, threads)

    @property
    def seconds(self) -> float:
        """Seconds since the process was started."""
        return time.monotonic() - self.started

    @property
    def memory_kills(self) -> int:
        """Return the number of processes killed by the system for lack of memory since this one was started."""
        return memory_kills() - self._memory_kills

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._poll()

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
            # it has no session of its own yet, or has ended
            if self.exit_code() is None:
                os.kill(self.pid, number)


def _fork(script: Path, arm: FrozenArm, settings: Mapping[str, str], threads: int | None) -> Started:
    arguments = (str(script), str(arm.config), str(arm.log), dict(settings), threads)
    process = context().Process(target=_run, args=arguments, name=arm.name)
    _start(process)
    assert process.pid is not None
    return process.pid, lambda: process.exitcode


def in_interpreter(script: Path, arm: FrozenArm, settings: Mapping[str, str], threads: int | None) -> Started:
    """Start an arm in an interpreter of its own, under torchrun where it has several ranks."""
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


def context() -> ForkServerContext:
    """Multiprocessing over a server process that has imported everything heavy already."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(PRELOAD)
    # the server imports before anything sets its path
    os.environ["PYTHONPATH"] = child_environment()["PYTHONPATH"]
    return server


def _start(process: BaseProcess) -> None:
    """Start it, and its server before it where there is none, without which nothing is known of the arms."""
    resource_tracker.ensure_running()  # the server would start it, and let the signals in again
    try:
        with held_back():
            process.start()
    except EOFError as error:
        raise MemoryError("the server that starts the arms has ended: see ulimit -a for limits") from error


def in_subprocess(function: Callable[[Argument], Result], argument: Argument) -> Result:
    """The result of `function(argument)` from a new process, which shares our standard output.

    Raises what the function raised, and RuntimeError if the process died.
    """
    ours, theirs = multiprocessing.Pipe()
    process = context().Process(target=_send_result, args=(function, argument, theirs, announce_launcher()))
    with _sign_of_life():
        _start(process)
    theirs.close()
    try:
        result: Result | BaseException = ours.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"a subprocess of the launcher died with exit code {process.exitcode}") from None
    finally:
        if process.is_alive():
            process.join(timeout=10)
    if isinstance(result, BaseException):
        raise result
    return result


_has_server = False


def _sign_of_life() -> AbstractContextManager[object]:
    """On a terminal, while the server of the processes starts, which takes seconds; nothing later."""
    global _has_server
    first, _has_server = not _has_server, True
    return waiting("checking") if first else nullcontext()


def _send_result(
    function: Callable[[Argument], object], argument: Argument, connection: Connection, launcher: str
) -> None:
    """Runs in the new process. Nothing is printed of a result that nobody waits for any more, as after a Ctrl-C."""
    from asr_ablations.runs.process import follow_launcher

    os.environ[LAUNCHER] = launcher
    follow_launcher()
    with suppress(BrokenPipeError, KeyboardInterrupt):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # which its server holds back
        try:
            connection.send(function(argument))
        except BrokenPipeError:
            raise
        except Exception as error:
            connection.send(error)


def _run(script: str, config: str, log: str, settings: dict[str, str], threads: int | None) -> None:
    """Runs in the forked process."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # which its server holds back
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    sys.stdout.flush()
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)
    os.environ.update(settings)
    # A forked process ends without the finalizers by which W&B removes its temporary folders.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        tempfile.tempdir = folder
        main(script, config, threads)
