"""No process of the tests outlives the one that started it."""

import contextlib
import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
"""Loaded here: between fork and exec there should be as little to do as possible."""


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the system send this process a signal when its parent has ended, however that ends. Execve leaves it so,
    fork does not. Only Linux has this; elsewhere nothing happens.
    """
    if hasattr(_libc, "prctl"):
        _libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


def tell_at_end_of_parent() -> None:
    """The same with a signal that a process may handle."""
    end_with_parent(signal.SIGTERM)


def kill_session(pid: int) -> None:
    """Kill a process that leads a session, or is about to, and what it has started there."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it leads none yet, or has ended
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
