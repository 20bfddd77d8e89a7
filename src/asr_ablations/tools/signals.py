"""The signals by which somebody asks a process to stop."""

import atexit
import contextlib
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C; a scheduler, or kill; a terminal that was closed, or a connection that was lost."""
STOPPED_EXIT_CODES = frozenset(128 + number for number in STOPPING)
"""Exit codes of a process that stopped on such a signal, as shells count."""


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Processes that start in this block get no signal that asks them to stop. One to the whole group, from `timeout`
    or a closed terminal, would end the starter of arms before the arms, which then count as dead, and a Ctrl-C while it
    imports would print its traceback. The starter still ends with this process.
    """
    with _mask(signal.SIG_BLOCK, *STOPPING):
        yield


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """A signal to stop is handled after this block: an exception in a function that a C library calls ends nothing, and
    is lost with what the function was to do. The mask would not do, since another thread may take the signal.
    """
    came: list[int] = []
    previous = (
        {number: signal.getsignal(number) for number in STOPPING if callable(signal.getsignal(number))}
        if threading.current_thread() is threading.main_thread()
        else {}
    )
    for number in previous:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for received in came:
            signal.raise_signal(received)


@contextlib.contextmanager
def let_in() -> Iterator[None]:
    """Processes that start in this block get every signal that asks them to stop, even if this process gets none."""
    with _mask(signal.SIG_UNBLOCK, *STOPPING):
        yield


@contextlib.contextmanager
def _mask(how: int, *numbers: int) -> Iterator[None]:
    before = signal.pthread_sigmask(how, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stopping_signals() -> list[signal.Signals]:
    """Those to listen to here: under nohup the end of the terminal is to be ignored."""
    return [number for number in STOPPING if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN]


def end_at_once_on_another(exit_code: int) -> None:
    """End at once on another signal to stop: everything is written, and Python would print a traceback."""
    if threading.current_thread() is threading.main_thread():
        for number in STOPPING:
            signal.signal(number, lambda *_: os._exit(exit_code))


def ignored_at_the_end() -> None:
    """Ignore signals to stop once everything else that is due at the end of this process is done: the interpreter takes
    its handlers away before its modules, and a signal then would change the exit code. Called before libraries that
    have something to do at the end are imported, since the first to be registered is the last to be called.
    """
    for number in STOPPING:
        atexit.register(signal.signal, number, signal.SIG_IGN)


def handle_on_a_stack_of_their_own() -> None:
    """Let the main thread handle signals on a stack beside its own; a crash then also says where it came from.

    oneDNN's products of float32 matrices on x86 (sgemm, which a CPU's LSTM uses; oneDNN issue 4845, in torch up to 2.11
    at least) point the stack register at the heap while they run: a signal that is handled there, as Python's are,
    overwrites whatever lies before, and the process ends at a later free() with "corrupted size vs. prev_size".
    """
    if not faulthandler.is_enabled():
        faulthandler.enable(2)  # it installs the stack; Python's own handlers use one that is there


def when_gone(pid: int, started: float, then: Callable[[], None]) -> None:
    """Call `then` from a thread once this process has ended. started: its start by `start_of`: ids are reused."""

    def watch() -> None:
        while _is_alive(pid, started):
            time.sleep(0.5)
        then()

    threading.Thread(target=watch, daemon=True, name="watchdog").start()


def end_with(pid: int, started: float) -> None:
    """End this process at once when the other has ended, even if it was killed: nobody reads the results any more."""
    when_gone(pid, started, lambda: os._exit(1))


def start_of(pid: int) -> float:
    """When a process was started, in seconds: on Linux since the machine was. psutil adds the time of the start, which
    moves when the clock is stepped. Raises psutil.NoSuchProcess.
    """
    try:
        # the name in parentheses may hold anything; the start is the 22nd field, the 20th after the name
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (FileNotFoundError, ProcessLookupError):
        return float(psutil.Process(pid).create_time())


def _is_alive(pid: int, started: float) -> bool:
    try:
        return abs(start_of(pid) - started) < 1 and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except (OSError, psutil.AccessDenied):  # too many open files: that says nothing of the process
        return True
