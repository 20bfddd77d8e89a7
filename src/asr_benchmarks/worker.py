"""An object in a process of its own, so that one framework's threads, memory and settings do not affect another's."""

import os
import signal
import traceback
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from asr_ablations.tools.machine import cores, peak_memory


class WorkerError(RuntimeError):
    """The error of a worker process in one line; `trace` holds the whole traceback."""

    def __init__(self, line: str, trace: str = "") -> None:
        self.trace = trace
        super().__init__(line)


class Worker:
    """An object made by `make` in a fresh process; `call` runs one of its methods there. Leaving the context ends the
    process.

    make: a class or a partial of a class whose module imports no framework. threads: cores that the process may use,
    None for all; environment: variables of the process, in addition to this one's; children: whether it starts
    processes of its own; wait: whether to wait until `make` is done and raise its errors, instead of in the first call:
    without waiting, several workers start at the same time.
    """

    def __init__(
        self,
        make: Callable[[], object],
        threads: int | None = None,
        environment: Mapping[str, str] | None = None,
        children: bool = False,
        wait: bool = True,
    ) -> None:
        context = get_context("spawn")
        self._pipe, other_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(other_end, make, threads), daemon=not children)
        added = {**_limits(threads), **(environment or {})}
        before = {name: os.environ.get(name) for name in added}
        os.environ.update(added)
        # Ctrl-C reaches every process of a terminal; ending the workers is left to this one, unless they have children
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, set() if children else {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        other_end.close()
        self._ready = False
        if wait:
            self._await_ready()

    def call(self, method: str, *arguments: object) -> Any:
        """The result of a method of the object. Raises WorkerError if the method raises or the process has ended."""
        self._await_ready()
        self._pipe.send((method, arguments))
        return self._answer()

    def peak_memory(self) -> int:
        """Largest memory of the process in bytes, its libraries included."""
        return int(self.call(PEAK))

    def _await_ready(self) -> None:
        if not self._ready:
            self._answer()
            self._ready = True

    def _answer(self) -> Any:
        try:
            good, answer = self._pipe.recv()
        except (EOFError, ConnectionError) as error:
            self._process.join()
            raise WorkerError(f"its process ended with exit code {self._process.exitcode}") from error
        if not good:
            self.close()
            raise WorkerError(*answer)
        return answer

    def close(self) -> None:
        """End the process, by force if it does not end within 10 s."""
        self._pipe.close()
        self._process.join(timeout=10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


PEAK = "<peak memory>"
"""The call that asks a worker for its memory, where others name a method."""


def missing(packages: Iterable[str]) -> list[str]:
    """The packages among these that are not installed."""
    return [name for name in packages if find_spec(name) is None]


def _limits(threads: int | None) -> dict[str, str]:
    """Variables that limit a framework's threads when it is loaded; JAX reads none, and goes by its cores."""
    if threads is None:
        return {}
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    return dict.fromkeys(names, str(threads))


def _serve(pipe: Connection, make: Callable[[], object], threads: int | None) -> None:
    if threads is not None and threads < cores() and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    try:
        instance = make()
        pipe.send((True, None))
        while True:
            method, arguments = pipe.recv()
            pipe.send((True, peak_memory() if method == PEAK else getattr(instance, method)(*arguments)))
    except (EOFError, BrokenPipeError):  # the parent is done
        return
    except Exception as error:
        pipe.send((False, (f"{type(error).__name__}: {str(error).strip() or 'no message'}", traceback.format_exc())))
