"""Standard streams that were closed or have gone, and signs of life on a terminal."""

import os
import sys
from contextlib import AbstractContextManager, nullcontext, suppress

from asr_verdicts.terminal import console, harmless


def harmless_line(text: str) -> str:
    """The same in one line. A carriage return, as a script written on Windows leaves it behind a value, is spelled out;
    it is not taken for a space.
    """
    return " ".join(harmless(text).split())


def open_streams() -> None:
    """Connect standard streams that whoever started the command has closed to nothing: a file that is opened next would
    take their place, and print what is written there.
    """
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


def ignore_output() -> None:
    """Nobody reads the output any more, or the disk that it goes to is full: from now on it goes nowhere, so that the
    interpreter, which writes what is left of it at its end, does not fail once more.
    """
    with suppress(OSError, ValueError, AttributeError):  # it may be closed already
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def waiting(title: str) -> AbstractContextManager[object]:
    """On a terminal, a sign of life for as long as the block takes."""
    terminal = console(stderr=True)
    return terminal.status(title) if terminal.is_terminal else nullcontext()
