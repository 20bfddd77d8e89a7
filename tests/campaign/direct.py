"""Bad input as direct calls, each forked from this interpreter: a hundred of them take the time of one command."""

import os
import resource
import select
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from asr_ablations.tools.errors import UsageError, of_the_system
from tests.campaign.input_table import FINE

SECONDS = 30
"""Of processor time, after which a call hangs: each takes a fraction of one."""
MEMORY = 6 * 2**30
"""Bytes that a call may ask for: one that asks for more would end other work on the machine."""
Outcome = tuple[str, str]
"""One of input_table.OUTCOMES, and what was said."""


@dataclass(frozen=True)
class Call:
    """A case. kind: its row in the report; name: what is bad, and who reads it; tried: in an empty folder."""

    kind: str
    name: str
    tried: Callable[[Path], Outcome]


def refused(work: Callable[[], object], *words: str) -> Outcome:
    """Whether `work` refuses its input in one line, which has one of the words."""
    try:
        work()
    except UsageError as error:
        message = str(error)
    except OSError as error:
        message = of_the_system(error) or ""
        if not message:
            return "traceback", repr(error)
    else:
        return "silent", "accepted"
    named = "\n" not in message and (not words or any(word in message for word in words))
    return (FINE if named else "wrong message"), message


def outcome(call: Call) -> Outcome:
    """Try a case in a process of its own, which nothing of it outlives."""
    answer, ours = os.pipe()
    with tempfile.TemporaryDirectory() as folder:
        if (pid := os.fork()) == 0:
            _try(call, Path(folder), ours)
        os.close(ours)
        try:
            if not (text := _read(answer)):
                os.kill(pid, signal.SIGKILL)
        finally:
            os.close(answer)
            _, status = os.waitpid(pid, 0)
        if (Path(folder) / "executed").exists():
            return "executed", text
    if os.WIFSIGNALED(status):
        hangs = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
        return ("hang" if hangs else "crash"), signal.Signals(os.WTERMSIG(status)).name
    ended, _, said = text.partition("\n")
    return ended, said


def _try(call: Call, folder: Path, answer: int) -> NoReturn:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    try:
        os.chdir(folder)
        ended, said = call.tried(folder)
    except BaseException as error:
        ended, said = "traceback", repr(error)
    os.write(answer, f"{ended}\n{said[:2000]}".encode(errors="backslashreplace"))
    os._exit(0)


def _read(answer: int) -> str:
    """What the process writes; "" from one that ends without a word, or waits for ever, as for a pipe: that uses no
    processor time.
    """
    ready, _, _ = select.select([answer], [], [], 10 * SECONDS)
    return os.read(answer, 2**16).decode() if ready else ""
