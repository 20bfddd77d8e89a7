"""Errors for the user's own mistakes: one line, exit code 2, no traceback. A missing extra comes with its install."""

import errno
import signal
from importlib.util import find_spec

from asr_verdicts.errors import UsageError

DEVICE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The disk is full, or fails: no mistake in what was typed."""
NAMELESS = (*DEVICE_ERRORS, errno.EROFS, errno.ENOLCK, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
"""Errors of the system that say enough without a file: no locks, and limits of files and processes, too."""
LIMITS = ("too many open files", "unable to open shared memory object", "can't start new thread")
"""Words of libraries' errors for a limit of the system's."""


def of_the_system(error: OSError) -> str | None:
    """The file and what the system says of it; None for an error without file or device, which is one of ours."""
    if error.strerror is None or (error.filename is None and error.errno not in NAMELESS):
        return None
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def exit_code_of(error: OSError) -> int:
    """1 where the machine is at fault, 2 where what was typed is: a folder that cannot be written to."""
    return 1 if error.errno in DEVICE_ERRORS or error.filename is None else 2


class Stopped(BaseException):
    """The process has to stop (Ctrl-C, SIGTERM, preemption): the same request continues from the last checkpoint.
    It is no KeyboardInterrupt: Lightning would turn that into exit(1).
    """

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        name = signal.Signals(signal_number).name
        super().__init__("interrupted" if signal_number == signal.SIGINT else f"interrupted: {name}")


def stop_before(error: BaseException) -> BaseException | None:
    """The signal during whose handling an error arose, if any: it may leave half a copy of a config."""
    before: BaseException | None = error
    chain: list[BaseException] = []  # an error that is raised again from its own consequence makes a circle
    while before is not None and before not in chain:
        if isinstance(before, (KeyboardInterrupt, Stopped)):
            return before
        chain.append(before)
        before = before.__cause__ or before.__context__
    return None


def is_lack_of_memory(error: BaseException) -> bool:
    """Return whether an error means too little memory: it comes under a dozen names."""
    # the first is the dynamic linker's, of a library that does not fit into the address space
    words = (
        *("failed to map segment", "out of memory", "can't allocate memory"),
        *("cannot allocate memory", "not enough memory", "std::bad_alloc"),
    )
    return isinstance(error, MemoryError) or any(word in f"{type(error).__name__}: {error}".lower() for word in words)


def is_limit(error: BaseException) -> bool:
    """Return whether an error means that a limit of the system's is reached, by the words of the library."""
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in LIMITS)


BROUGHT_BY = {"pyctcdecode": "decode"}  # packages that a module imports at its top, by the extra that brings each


def require(extra: str, purpose: str, *packages: str) -> None:
    """Raises UsageError with the line that installs the extra, if a package is missing. purpose: what needs it."""
    if missing := [package for package in packages if find_spec(package) is None]:
        raise UsageError(f"{purpose}: needs {', '.join(missing)}; {installs(extra)}")


def missing(purpose: str, error: BaseException | None) -> UsageError | None:
    """The message for an import that failed because a package of BROUGHT_BY is missing; None for other errors."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    extra = BROUGHT_BY.get(package)
    return None if extra is None else UsageError(f"{purpose}: needs {package}; {installs(extra)}")


def installs(extra: str) -> str:
    """The line that installs an extra, in a sentence."""
    return f"make install EXTRAS={extra} (or pip install '.[{extra}]') installs it"


def refusals() -> tuple[type[Exception], ...]:
    """The exceptions of W&B's client for a server that refuses something, does not answer, or is not reached."""
    import wandb
    from wandb.sdk.lib.service.service_connection import WandbApiFailedError  # no subclass of wandb.errors.Error

    return wandb.errors.Error, WandbApiFailedError, OSError
