"""The frame of every command: what precedes its work, and one line in place of a traceback."""

import os
import signal
import sys
from contextlib import suppress

from asr_ablations.runs.status import reason
from asr_ablations.runs.torchrun import speaks
from asr_ablations.tools.errors import Stopped, exit_code_of, is_lack_of_memory, is_limit, of_the_system
from asr_ablations.tools.machine import name_the_user
from asr_ablations.tools.signals import end_at_once_on_another, ignored_at_the_end
from asr_verdicts.errors import UsageError
from asr_verdicts.terminal import forgive_characters, harmless


def prepare_command() -> None:
    ignored_at_the_end()
    open_streams()
    forgive_characters()
    name_the_user()


def open_streams() -> None:
    """Connect closed standard streams to nothing, or the next file that is opened would take what is printed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
            os.set_inheritable(number, True)  # what this process starts must find it open, too
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def report_end(error: BaseException, *, continues: bool = True) -> int:
    """Print why a command ends in one line, once for all ranks of a run, and return its exit code: 2 for a mistake of
    the user's, 1 for an error of the machine's, 128 and the number of a signal. Any other error is ours, and is raised.

    continues: the same command continues where it was interrupted.
    """
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
    """The line and the exit code with which a command ends for an error of the user's or of the machine's; None for one
    of ours, which needs its traceback. The line is empty where the reader of the output has gone away, as in … | head.
    """
    if isinstance(error, UsageError):
        return str(error), 2
    if isinstance(error, OSError):
        if error.filename is None:  # of the output: a reader that went away, a full disk
            _ignore_output()
        if isinstance(error, BrokenPipeError):
            return "", 1
        if (message := of_the_system(error)) is not None:
            return message, exit_code_of(error)
    return (reason(error), 1) if is_lack_of_memory(error) or is_limit(error) else None


def _ignore_output() -> None:
    """Write standard output nowhere from now on, or the interpreter would fail once more at its end."""
    with suppress(OSError, ValueError, AttributeError):  # it may be closed already
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
