"""Fork processes from a server process that has imported all heavy modules."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import nullcontext, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import TypeVar

from asr_ablations.runs.process import LAUNCHER, announce_launcher, child_environment, follow_launcher
from asr_ablations.tools.signals import STOPPING, held_back
from asr_verdicts.terminal import waiting

PRELOAD = [
    "asr_ablations.commands",  # first, because it keeps the other modules from importing unused packages
    "torch",
    "torchaudio",
    "pytorch_lightning",
    "torchmetrics.text",
    "wandb",
    "wandb.sdk.launch.inputs.internal",  # every wandb.init imports this module, which takes 0.8 s
    "asr_ablations.experiment.run",
    "asr_ablations.components.data.synthetic",
    "asr_ablations.components.model.ds2",
    "asr_ablations.components.logger.wandb",
    "scipy.special",
]
"""Modules that the server imports once per sweep. No module may open CUDA, or forked processes could not use CUDA."""

Argument = TypeVar("Argument")
Result = TypeVar("Result")


def context() -> ForkServerContext:
    """Return a multiprocessing context whose processes are forked from a server that has imported PRELOAD."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(PRELOAD)
    # the server imports PRELOAD before its module path could be set in any other way
    os.environ["PYTHONPATH"] = child_environment()["PYTHONPATH"]
    return server


def start_process(process: BaseProcess) -> None:
    """Start a process, and before it the fork server if necessary. Raise MemoryError if the server has ended."""
    resource_tracker.ensure_running()  # otherwise the fork server would start it, which unblocks signals
    try:
        with held_back():
            process.start()
    except EOFError as error:
        raise MemoryError("the server that starts the arms has ended: see ulimit -a for limits") from error


_has_server = False


def in_subprocess(function: Callable[[Argument], Result], argument: Argument) -> Result:
    """Return `function(argument)`, called in a new process. Raise its error, or RuntimeError if the process dies."""
    global _has_server
    ours, theirs = multiprocessing.Pipe()
    process = context().Process(target=_send_result, args=(function, argument, theirs, announce_launcher()))
    with nullcontext() if _has_server else waiting("checking"):  # the server takes seconds to start
        start_process(process)
    _has_server = True
    theirs.close()
    try:
        result: Result | BaseException = ours.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"a subprocess of the launcher died with exit code {process.exitcode}") from None
    process.join(timeout=10)
    if isinstance(result, BaseException):
        raise result
    return result


def _send_result(
    function: Callable[[Argument], object], argument: Argument, connection: Connection, launcher: str
) -> None:
    """Send the function's result or error to the launcher. Print nothing if the launcher has gone, as after Ctrl-C."""
    os.environ[LAUNCHER] = launcher
    follow_launcher()
    with suppress(BrokenPipeError, KeyboardInterrupt):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # the fork server blocks these signals
        try:
            connection.send(function(argument))
        except Exception as error:
            connection.send(error)
