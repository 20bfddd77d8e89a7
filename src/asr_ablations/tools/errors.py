"""Errors that the user or the machine caused, such as missing packages: their one-line messages and exit codes."""

import errno
import signal
from importlib.util import find_spec

from asr_verdicts.errors import UsageError

DEVICE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""System errors of a full or failing disk, which the user's input did not cause."""
NAMELESS = (*DEVICE_ERRORS, errno.EROFS, errno.ENOLCK, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
"""System errors that are clear without a file name, such as missing locks and limits on files and processes."""
LACK_OF_MEMORY = (
    "failed to map segment",  # from the dynamic linker, if a library does not fit into the address space
    *("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory", "std::bad_alloc"),
)
LIMITS = ("too many open files", "unable to open shared memory object", "can't start new thread")
"""Phrases in libraries' error messages that show that a system limit was reached."""


def describe_system_error(error: OSError) -> str | None:
    """Return the file name and the system's message, or None if the error lacks them and is therefore a bug."""
    if error.strerror is None or (error.filename is None and error.errno not in NAMELESS):
        return None
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def choose_exit_code(error: OSError) -> int:
    """Return 1 if the machine caused the error, or 2 if the user's input did, for example an unwritable folder."""
    return 1 if error.errno in DEVICE_ERRORS or error.filename is None else 2


class Stopped(BaseException):
    """The process must stop (Ctrl-C, SIGTERM, preemption); the same command resumes from the last checkpoint.
    This is not a KeyboardInterrupt, because Lightning would turn that into exit(1).
    """

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        name = signal.Signals(signal_number).name
        super().__init__("interrupted" if signal_number == signal.SIGINT else f"interrupted: {name}")


def stop_before(error: BaseException) -> BaseException | None:
    """Return the stop signal among an error's causes, or None. Libraries may wrap the signal in another error."""
    chain: list[BaseException | None] = [None, error]
    while (before := chain[-1]) is not None and not isinstance(before, (KeyboardInterrupt, Stopped)):
        following = before.__cause__ or before.__context__
        # the chain is circular if an error is raised again while an error that it caused is being handled
        chain.append(None if following in chain else following)
    return before


def is_lack_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out, which libraries report in many ways."""
    text = f"{type(error).__name__}: {error}".lower()
    return isinstance(error, MemoryError) or any(phrase in text for phrase in LACK_OF_MEMORY)


def is_limit(error: BaseException) -> bool:
    """Return whether a library's error means that a system limit was reached."""
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in LIMITS)


BROUGHT_BY = {"pyctcdecode": "decode", "kenlm": "decode"}  # extras of packages that are imported without `require`


def require(extra: str, purpose: str, *packages: str) -> None:
    """Raise UsageError with the install command of an extra if a package is missing. purpose: the feature's name."""
    if missing := [package for package in packages if find_spec(package) is None]:
        raise UsageError(f"{purpose}: needs {', '.join(missing)}; {installs(extra)}")


def missing(purpose: str, error: BaseException | None) -> UsageError | None:
    """Return the UsageError for a failed import of a package in BROUGHT_BY, or None for other errors."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    extra = BROUGHT_BY.get(package)
    return None if extra is None else UsageError(f"{purpose}: needs {package}; {installs(extra)}")


def installs(extra: str) -> str:
    """Return the last part of an error message: the command that installs an extra."""
    return f"make install EXTRAS={extra} (or pip install '.[{extra}]') installs it"


def refusals() -> tuple[type[Exception], ...]:
    """Return the exceptions that W&B's client raises if its server refuses a request or cannot be reached."""
    import wandb
    from wandb.sdk.lib.service.service_connection import WandbApiFailedError  # not a wandb.errors.Error

    return wandb.errors.Error, WandbApiFailedError, OSError
