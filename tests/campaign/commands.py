"""The project's commands under a campaign: started, watched, ended, and everything that they have left running."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.helpers import interpreter
from tests.helpers.command import clean_environment
from tests.helpers.interpreter import REPOSITORY, Command

PATIENCE = 600.0
"""Seconds after which a command hangs. On a quiet machine each takes seconds."""
PR_SET_CHILD_SUBREAPER = 36
"""Linux's number: what a killed command leaves running becomes this process's child."""


class Result(NamedTuple):
    """How a command ended. code: negative after a signal; None for one that was killed because it hung."""

    code: int | None
    out: str
    errors: str


def finish(command: Command) -> Result:
    """Wait for the end; a command that takes longer than PATIENCE is killed, and its code is None."""
    if (code := command.poll(PATIENCE)) is None:
        command.send_signal(signal.SIGKILL)
    done = command.finish()
    texts = (text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    return Result(code, *texts)


def run_command(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path = REPOSITORY, stdin: str = ""
) -> Result:
    with interpreter.start(arguments, environment, folder, stdin) as command:
        return finish(command)


def environment(corpora: Path, folder: Path) -> dict[str, str]:
    """Offline, without accounts, with its own folders for corpora and what is known of audio files."""
    return clean_environment(corpora, folder, OMP_NUM_THREADS="1", ASR_ABLATIONS_INDEX=str(corpora / "index"))


def adopt_orphans() -> None:
    """Make this process the parent of whatever its descendants leave behind, so that `left_running` finds it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def left_running(own: set[int]) -> list[psutil.Process]:
    """Running descendants of this process, except `own` and the interpreters that commands are forked from.

    Reaps those that have ended.
    """
    processes = []
    for process in psutil.Process().children(recursive=True):
        if process.pid in own | interpreter.interpreters():
            continue
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
            elif process.ppid() == os.getpid():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
    return processes


def until(condition: Callable[[], bool], seconds: float, pause: float = 0.02) -> bool:
    """Whether the condition held within so many seconds."""
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(pause)
    return True
