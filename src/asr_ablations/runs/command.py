"""Prepare every command's process, and report its errors in one line instead of a traceback."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from asr_ablations.runs.status import reason
from asr_ablations.runs.torchrun import speaks
from asr_ablations.tools.errors import (
    Stopped,
    choose_exit_code,
    describe_system_error,
    is_lack_of_memory,
    is_limit,
    stop_before,
)
from asr_ablations.tools.machine import name_the_user
from asr_ablations.tools.signals import end_at_once_on_another, ignore_signals_at_exit
from asr_verdicts.errors import UsageError
from asr_verdicts.terminal import forgive_characters, harmless


def prepare_command() -> None:
    ignore_signals_at_exit()
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # the stream is closed, and the next opened file would receive its output
            stream = Path(os.devnull).open("r+", encoding="utf-8")  # noqa: SIM115
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)
    forgive_characters()
    name_the_user()


def report_end(error: BaseException, *, continues: bool = True) -> int:
    """Print why a command ended, in one line and on only one rank, and return the exit code.

    The code is 2 for a user's mistake, 1 for a machine failure, and 128 plus the signal's number for a stop signal.
    Other errors are bugs and are re-raised. continues: whether the same command resumes an interrupted run.
    """
    error = stop_before(error) or error  # a library's clean-up may fail because the signal interrupted it
    if isinstance(error, (KeyboardInterrupt, Stopped)):
        code = 128 + getattr(error, "signal_number", signal.SIGINT)
        end_at_once_on_another(code)
        line = f"{str(error) or 'interrupted'}{'; the same command continues' if continues else ''}"
    elif isinstance(error, Exception) and (end := describe_end(error)) is not None:
        line, code = f"error: {end[0]}" if end[0] else "", end[1]
    else:
        raise error
    if line and speaks():
        print(harmless(line), file=sys.stderr)
    return code


def describe_end(error: Exception) -> tuple[str, int] | None:
    """Return the message and exit code for an error that the user or the machine caused; None for a bug. The message is
    empty if the output's reader has closed the pipe, as in `… | head`.
    """
    if isinstance(error, UsageError):
        return str(error), 2
    if isinstance(error, OSError):
        if error.filename is None:  # writing the output failed: the pipe is closed, or the disk is full
            with suppress(OSError, ValueError):  # otherwise the interpreter would fail again on exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return "", 1
        if (message := describe_system_error(error)) is not None:
            return message, choose_exit_code(error)
    return (reason(error), 1) if is_lack_of_memory(error) or is_limit(error) else None
