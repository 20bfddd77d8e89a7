"""Errors for the user's own mistakes, which are shown as one line with exit code 2 and no traceback."""

import errno
import signal

DEVICE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The disk is full, or fails: no mistake in what was typed."""


class UsageError(ValueError):
    """A wrong value, a missing file: its message names the value and what was expected."""


def choices(name: str, value: object, allowed: object) -> UsageError:
    """The error for a value outside a list of choices."""
    listed = ", ".join(map(str, allowed)) if isinstance(allowed, (list, tuple, set)) else str(allowed)
    return UsageError(f"{name}={value}: expected {listed}")


def of_the_system(error: OSError) -> str | None:
    """The file and what the system says of it, in one line; None for an error that names neither file nor device, which
    is one of ours.
    """
    if error.strerror is None or (error.filename is None and error.errno not in DEVICE_ERRORS):
        return None
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def exit_code_of(error: OSError) -> int:
    """1 where the machine is at fault, 2 where what was typed is: a folder that cannot be written to."""
    return 1 if error.errno in DEVICE_ERRORS else 2


class Stopped(BaseException):
    """The process has to stop (Ctrl-C, SIGTERM, preemption): the same request continues from the last checkpoint.
    It is no KeyboardInterrupt: Lightning would turn that into exit(1).
    """

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        name = signal.Signals(signal_number).name
        super().__init__("interrupted" if signal_number == signal.SIGINT else f"interrupted: {name}")


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether an error means too little memory: it comes under a dozen names."""
    words = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory", "std::bad_alloc")
    return isinstance(error, MemoryError) or any(word in f"{type(error).__name__}: {error}".lower() for word in words)
