"""The project's commands under a campaign: started, watched, ended, and everything that they have left running."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import psutil

from tests.helpers import interpreter
from tests.helpers.command import clean_environment
from tests.helpers.interpreter import REPOSITORY

PATIENCE, BUSY, IDLE = 600.0, 90.0, 150.0
"""Seconds after which a command hangs; seconds of processor time; and seconds in which it, and all that it has started,
use none: a machine with other work takes longer, and uses no more. On a quiet machine each command takes seconds.
"""
PR_SET_CHILD_SUBREAPER = 36
"""Linux's number: what a killed command leaves running becomes this process's child."""
THREADS = {"OMP_NUM_THREADS": "1"}


class Result(NamedTuple):
    """How a command ended. code: negative after a signal; None for one that was killed because it hung."""

    code: int | None
    out: str
    errors: str


class Running:
    """`python <arguments>`, forked from an interpreter that has imported torch. Killed where its block ends first."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        stdin: str,
        fresh: bool | None = None,
    ) -> None:
        self._command = interpreter.start(arguments, environment, folder, stdin, fresh=fresh)
        self.pid: int = self._command.pid

    def poll(self, seconds: float = 0.0) -> int | None:
        """The exit code; None if the command still runs after so many seconds."""
        return self._command.poll(seconds)

    def signal(self, number: int) -> None:
        """Send the command a signal if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self._command.send_signal(number)

    def finish(self, patience: float = PATIENCE) -> Result:
        """Wait for the end; a command that takes longer is killed, and its code is None."""
        ends = time.monotonic() + patience
        used, idle_since = 0.0, time.monotonic()
        while (code := self.poll(0.5)) is None and time.monotonic() < ends and used < BUSY:
            if (now := self._used()) != used:
                used, idle_since = now, time.monotonic()
            elif time.monotonic() - idle_since > IDLE:
                break
        if code is None:
            self.signal(signal.SIGKILL)
            self.poll(PATIENCE)
        done = self._command.finish()
        return Result(code, _readable(done.stdout), _readable(done.stderr))

    def _used(self) -> float:
        """Seconds of processor time that the command and what it has started have used."""
        used = 0.0
        with contextlib.suppress(psutil.NoSuchProcess):
            command = psutil.Process(self.pid)
            for process in (command, *command.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    used += sum(process.cpu_times()[:2])
        return used

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.signal(signal.SIGKILL)
        self.poll(PATIENCE)
        self._command.close()


def start(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path = REPOSITORY, stdin: str = ""
) -> Running:
    return Running(arguments, environment, folder, stdin)


def run_command(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: Path = REPOSITORY,
    stdin: str = "",
    patience: float = PATIENCE,
    fresh: bool | None = None,
) -> Result:
    """A command from its start to its end. fresh: True for one with an interpreter of its own."""
    with Running(arguments, environment, folder, stdin, fresh) as command:
        return command.finish(patience)


def environment(corpora: Path, folder: Path, **more: str) -> dict[str, str]:
    """Offline, without accounts, with corpora and what is known of audio files in folders of its own."""
    index = {"ASR_ABLATIONS_INDEX": str(corpora / "index")}
    return {**clean_environment(corpora, folder, **THREADS, **index), **more}


def adopt_orphans() -> None:
    """Make this process the parent of whatever its descendants leave behind, so that `left_running` finds it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def left_running(own: set[int]) -> list[psutil.Process]:
    """Descendants of this process that run, but for those in `own` and the interpreters that commands are forked from;
    reaps those that have ended.
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


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
