"""Signals that ask a process to stop."""

import atexit
import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

import psutil

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals sent by Ctrl-C, by a scheduler or `kill`, and by a closed terminal or lost connection."""
STOPPED_EXIT_CODES = frozenset(128 + number for number in STOPPING)
"""Exit codes of a process stopped by one of these signals, as in shells."""


def held_back() -> contextlib.AbstractContextManager[None]:
    """Return a context manager in which this process and the processes that it starts do not receive stop signals.

    `timeout` and a closing terminal send signals to the whole process group. If the server that forks the arms ended
    first, the arms would count as dead, and Ctrl-C during the server's imports would print a traceback.
    """
    return _mask(signal.SIG_BLOCK)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Handle stop signals only at the end of this context. A signal handler's exception would be lost if it were raised
    in a C library's callback. Masking signals does not help, because another thread may receive them.
    """
    received: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    handled = [number for number in STOPPING if is_main and callable(signal.getsignal(number))]
    previous = {number: signal.signal(number, lambda number, _: received.append(number)) for number in handled}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for waiting in received:
            signal.raise_signal(waiting)


def let_in() -> contextlib.AbstractContextManager[None]:
    """Return a context manager in which new processes receive all stop signals, even if this process blocks them."""
    return _mask(signal.SIG_UNBLOCK)


@contextlib.contextmanager
def _mask(how: int) -> Iterator[None]:
    before = signal.pthread_sigmask(how, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stopping_signals() -> list[signal.Signals]:
    """Return the stop signals to handle. SIGHUP is left out if it is ignored, as under nohup."""
    return [number for number in STOPPING if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN]


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Raise KeyboardInterrupt. Commands, but not notebooks, have this function as their SIGINT handler."""
    raise KeyboardInterrupt


_stopped_with: list[int] = []
"""The exit code of a stopped command."""


def end_at_once_on_another(exit_code: int) -> None:
    """Exit immediately on the next stop signal, without a traceback. Call this once all files are written."""
    _stopped_with[:] = [exit_code]
    if threading.current_thread() is threading.main_thread():
        for number in STOPPING:
            signal.signal(number, lambda *_: os._exit(exit_code))


def ignore_signals_at_exit() -> None:
    """Arrange for stop signals to be ignored once all other exit handlers have run. The interpreter then resets signal
    handlers, so a late signal would change the exit code. Call this before importing libraries that register exit
    handlers, because exit handlers run in reverse order of registration.

    A stopped command then exits at once: the interpreter's own end aborts if a library's thread still prints.
    """
    atexit.register(_exit_if_stopped)
    for number in STOPPING:
        atexit.register(signal.signal, number, signal.SIG_IGN)


def _exit_if_stopped() -> None:
    if _stopped_with:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # the reader has closed the pipe
                stream.flush()
        os._exit(_stopped_with[0])


def handle_on_a_stack_of_their_own() -> None:
    """Handle the main thread's signals on a separate stack. As a side effect, crashes print a traceback.

    oneDNN's float32 matrix products on x86 (LSTMs on a CPU) point the stack register at the heap while they run, and a
    signal handled there corrupts it (oneDNN issue 4845, in torch up to at least 2.11).
    """
    if not faulthandler.is_enabled():
        faulthandler.enable(2)  # this installs a separate stack, which Python's signal handlers also use


def when_gone(pid: int, started: float, then: Callable[[], None]) -> None:
    """Call `then` in a thread once a process has ended. started: `start_of(pid)`, because process ids are reused."""

    def watch() -> None:
        while _is_alive(pid, started):
            time.sleep(0.5)
        then()

    threading.Thread(target=watch, daemon=True, name="watchdog").start()


def end_with(pid: int, started: float) -> None:
    """Exit immediately once the process that needs this one's results has ended, even if it was killed."""
    when_gone(pid, started, lambda: os._exit(1))


def start_of(pid: int) -> float:
    """Return a process's start time in seconds. On Linux, it counts from the boot, because psutil's start time changes
    when the clock is adjusted. Raises psutil.NoSuchProcess.
    """
    try:
        # the name in parentheses may contain anything; the start time is field 22, the 20th after the name
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (FileNotFoundError, ProcessLookupError):
        return float(psutil.Process(pid).create_time())


def _is_alive(pid: int, started: float) -> bool:
    try:
        return abs(start_of(pid) - started) < 1 and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except (OSError, psutil.AccessDenied):  # the process may be alive, for example if too many files are open
        return True
