"""An object in a process of its own: one framework's threads, memory and settings do not reach another's."""

import os
import signal
import traceback
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from asr_ablations.tools.machine import cores, peak_memory


class WorkerError(RuntimeError):
    """What the process raised, in one line; `.trace` has all of it."""

    def __init__(self, line: str, trace: str = "") -> None:
        self.trace = trace
        super().__init__(line)


class Worker:
    """What `make` gives, in a fresh process that may use `threads` cores: `call` runs a method of it. As a context it
    ends the process. environment: of the process, beside this one's; children: it starts processes of its own; wait:
    until `make` is done, so that its errors are raised here; else in the first call, and several start at once.

    make: a class or a partial of one, by whose module no framework is imported before it is called.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        threads: int | None = None,
        environment: Mapping[str, str] | None = None,
        children: bool = False,
        wait: bool = True,
    ) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make, threads), daemon=not children)
        added = {**_limits(threads), **(environment or {})}
        before = {name: os.environ.get(name) for name in added}
        os.environ.update(added)
        # Ctrl-C reaches every process of a terminal. It is this one's to end the others, but for those of their own.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, set() if children else {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        theirs.close()
        self._made = False
        if wait:
            self._await_made()

    def call(self, method: str, *arguments: Any) -> Any:
        """Raises WorkerError for what the method raises, and if the process is gone."""
        self._await_made()
        self._pipe.send((method, arguments))
        return self._answer()

    def peak_memory(self) -> int:
        """Bytes that the process held at most, its libraries included."""
        return int(self.call(PEAK))

    def _await_made(self) -> None:
        if not self._made:
            self._answer()
            self._made = True

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


def missing(packages: tuple[str, ...] | list[str]) -> list[str]:
    """Those of these packages that are not installed."""
    return [name for name in packages if find_spec(name) is None]


def _limits(threads: int | None) -> dict[str, str]:
    """What the frameworks read when they load; JAX has no number of threads and goes by the cores it may use."""
    if threads is None:
        return {}
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    return dict.fromkeys(names, str(threads))


def _serve(pipe: Connection, make: Callable[[], Any], threads: int | None) -> None:
    if threads is not None and threads < cores() and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    try:
        made = make()
        pipe.send((True, None))
        while True:
            method, arguments = pipe.recv()
            pipe.send((True, peak_memory() if method == PEAK else getattr(made, method)(*arguments)))
    except (EOFError, BrokenPipeError):  # the parent is done
        return
    except Exception as error:
        pipe.send((False, (f"{type(error).__name__}: {str(error).strip() or 'no message'}", traceback.format_exc())))
