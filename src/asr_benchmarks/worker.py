"""Worker processes, which keep the threads, memory and settings of different frameworks apart."""

import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol, TypeVar

from asr_ablations.tools.machine import cores, peak_memory
from asr_benchmarks.timing import Timing, in_turn
from asr_verdicts.errors import UsageError
from asr_verdicts.terminal import bar

Key = TypeVar("Key")


class Step(NamedTuple):
    """Measurements of a training step: seconds, mean loss in nats, number of frames, and number of weight updates."""

    seconds: float
    loss: float
    frames: int = 0
    updates: int = 1


class Trainer(Protocol):
    """Trains one network in one framework."""

    def step(self) -> Step:
        """Train one step, wait for the device, and return the measurements. The loss is measured before the update."""

    def device_memory(self) -> int | None:
        """Return the GPU's peak memory in bytes, or None on a CPU or if the framework does not report it."""

    def versions(self) -> dict[str, str]:
        """Return the versions of the framework's packages."""


class WorkerError(RuntimeError):
    """An error in a worker process, with a one-line message."""


class Worker:
    """A new process that builds an object with `make`. `call` runs a method of that object.

    - make: function that builds the object; it must not import a framework in the calling process
    - threads: number of cores that the process may use; None for all
    - environment: additional environment variables
    - children: whether the object itself starts processes
    - first: index of the first core to use, among the calling process's cores
    - wait: whether to wait until the object is built; otherwise the first call waits and raises any errors
    """

    def __init__(
        self,
        make: Callable[[], object],
        threads: int | None = None,
        environment: Mapping[str, str] | None = None,
        children: bool = False,
        wait: bool = True,
        first: int = 0,
    ) -> None:
        context = get_context("spawn")
        self._pipe, other_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(other_end, make, threads, first), daemon=not children)
        limits = {} if threads is None else dict.fromkeys(LIMITS, str(threads))
        added = {**limits, **(environment or {})}
        before = {name: os.environ.get(name) for name in added}
        os.environ.update(added)
        resource_tracker.ensure_running()  # its start unblocks SIGINT, so it must come before
        # Ctrl-C reaches all processes in a terminal. Workers without children block it, because this process ends them.
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
        """Call a method of the object and return its result. Raise WorkerError if that fails or the process ended."""
        self._await_ready()
        self._pipe.send((method, arguments))
        return self._answer()

    def peak_memory(self) -> int:
        """Return the peak memory of the process in bytes, including its libraries."""
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
            raise WorkerError(answer)
        return answer

    def close(self) -> None:
        """Close the pipe, which makes the process exit. Kill the process if it is still running after 10 s."""
        self._pipe.close()
        self._process.join(timeout=10)
        self.kill()

    def kill(self) -> None:
        """Kill the process and wait until it has ended."""
        self._process.kill()
        self._process.join()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "NPROC")
"""Environment variables that limit a framework's threads. JAX reads NPROC as the number of cores."""

PEAK = "<peak memory>"  # sent instead of a method's name to request a worker's peak memory


class Group:
    """`count` workers that run at the same time.

    ranks: whether the workers train one model together, as under torchrun; if not, each worker has its own cores
    """

    def __init__(self, make: Callable[[], object], count: int, threads: int, ranks: bool = False) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        group = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        shared = {**group, "NODE_RANK": 0, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        self.workers = []
        for rank in range(count):
            variables = {name: str(value) for name, value in {**shared, "RANK": rank, "LOCAL_RANK": rank}.items()}
            pinned, environment = (None, variables) if ranks else (threads, {})
            self.workers.append(Worker(make, pinned, environment, wait=False, first=rank * threads))

    def call(self, method: str, *arguments: object) -> list[Any]:
        """Call a method of all objects. If one fails, kill all workers, because some might be waiting for it."""
        with ThreadPoolExecutor(len(self.workers)) as pool:
            futures = [pool.submit(worker.call, method, *arguments) for worker in self.workers]
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            if failed := next((error for future in done if (error := future.exception())), None):
                for worker in self.workers:
                    worker.kill()
                raise failed
            return [future.result() for future in futures]

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.workers:
            worker.close()


QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
VARIABLES = {
    "cpu": {**QUIET, "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"},
    "gpu": {**QUIET, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"},
}
"""Environment variables of a worker, by device.

They hide the GPU from CPU measurements, and prevent frameworks from reserving all of a GPU's memory, which several
workers share.
"""


@dataclass(frozen=True)
class Implementation:
    """A training implementation that a benchmark compares with others.

    - trainer: name of its Trainer class within asr_benchmarks; only the worker process imports it
    - model: additional arguments of the Trainer
    - packages: packages that must be installed
    - environment: additional environment variables of the worker process
    - devices: devices on which it runs
    - children: whether it starts processes of its own
    - published: name of the corresponding implementation in a paper
    """

    trainer: str
    model: Mapping[str, Any] = field(default_factory=dict)
    packages: list[str] = field(default_factory=list)
    environment: Mapping[str, str] = field(default_factory=dict)
    devices: list[str] = field(default_factory=lambda: ["cpu", "gpu"])
    children: bool = False
    published: str | None = None

    def start(self, *arguments: object, device: str, threads: int | None, keys: Mapping[str, Any]) -> Worker:
        """Build the Trainer in a new process. Raise WorkerError if that fails."""
        make = partial(make_trainer, self.trainer, *arguments, **keys, **self.model)
        return Worker(make, threads, {**VARIABLES[device], **self.environment}, self.children)


def make_trainer(trainer: str, *arguments: object, **keys: object) -> Trainer:
    """Build a Trainer from the name of its class, such as frameworks.jax_lax.JaxTrainer."""
    module, _, name = trainer.rpartition(".")
    instance: Trainer = getattr(import_module(f"asr_benchmarks.{module}"), name)(*arguments, **keys)
    return instance


def choose_runnable(
    implementations: Mapping[str, Implementation], device: str
) -> tuple[dict[str, Implementation], list[str]]:
    """Return the implementations that can run on this device, and a note for each one that cannot."""
    runnable, notes = dict(implementations), []
    for name, implementation in implementations.items():
        absent = [package for package in implementation.packages if find_spec(package) is None]
        if device not in implementation.devices:
            notes.append(f"{name} left out: it only runs on {' and '.join(implementation.devices)}")
        elif absent:
            notes.append(f"{name} left out, {' and '.join(absent)} not installed: pip install '.[benchmarks]'")
        else:
            continue
        del runnable[name]
    return runnable, notes


@contextmanager
def run_workers(
    starts: Mapping[Key, Callable[[], Worker]], check: Callable[[Key, Worker], None], title: str, notes: list[str]
) -> Iterator[dict[Key, Worker]]:
    """Start workers, yield those that pass `check`, and end them afterwards. Add a note for each failure."""
    with ExitStack() as stack:
        workers: dict[Key, Worker] = {}
        with bar(title, len(starts)) as advance:
            for key, start in starts.items():
                try:
                    worker = stack.enter_context(start())
                    check(key, worker)
                    workers[key] = worker
                except WorkerError as error:
                    notes.append(f"{key} not measured: {' '.join(str(error).split())}")
                advance(1)
        yield workers


class Measured(NamedTuple):
    """Measurements of a worker. memory: peak bytes in its process. device_memory: peak bytes on the GPU, or None."""

    timing: Timing
    steps: list[Step]
    memory: int
    device_memory: int | None
    versions: dict[str, str]


def measure_in_turn(workers: Mapping[Key, Worker], **options: Any) -> dict[Key, Measured]:
    """Time the steps of all workers alternately. options: arguments of in_turn. Raise UsageError if a worker fails."""
    steps: dict[Key, list[Step]] = {key: [] for key in workers}

    def measure(key: Key) -> float:
        try:
            steps[key].append(workers[key].call("step"))
        except WorkerError as error:
            raise UsageError(f"{key} failed while it was being measured: {error}") from error
        return steps[key][-1].seconds

    timings = in_turn({key: partial(measure, key) for key in workers}, **options)
    return {
        key: Measured(timings[key], steps[key], w.peak_memory(), w.call("device_memory"), w.call("versions"))
        for key, w in workers.items()
    }


def _serve(pipe: Connection, make: Callable[[], object], threads: int | None, first: int) -> None:
    if threads is not None and threads < cores() and hasattr(os, "sched_setaffinity"):
        available = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, [available[(first + number) % len(available)] for number in range(threads)])
    try:
        instance = make()
        pipe.send((True, None))
        while True:
            method, arguments = pipe.recv()
            pipe.send((True, peak_memory() if method == PEAK else getattr(instance, method)(*arguments)))
    except (EOFError, BrokenPipeError):  # the parent process has closed the pipe
        return
    except Exception as error:
        pipe.send((False, f"{type(error).__name__}: {str(error).strip() or 'no message'}"))
