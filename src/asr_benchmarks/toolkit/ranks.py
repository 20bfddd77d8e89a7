"""Processes that train together, each on its share of the batches (Doetsch2016 §4.1)."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType

from asr_benchmarks.toolkit.engine import Engine, Epoch
from asr_benchmarks.worker import Worker


class Ranks:
    """One engine in `count` processes of `threads` threads each, as torchrun would start them."""

    def __init__(self, make: Callable[[], Engine], count: int, threads: int) -> None:
        self.count = count
        self._stack = ExitStack()
        self._pool = self._stack.enter_context(ThreadPoolExecutor(count))
        group = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
        # the worker's own `threads` would give the same cores to all of them
        shared = {**group, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "NODE_RANK": 0}
        self.workers = []
        for rank in range(count):
            own = {name: str(value) for name, value in {**shared, "RANK": rank, "LOCAL_RANK": rank}.items()}
            self.workers.append(self._stack.enter_context(Worker(make, environment=own, wait=False)))

    def epoch(self) -> Epoch:
        """Train one epoch: seconds of the slowest rank, frames of all, and the mean loss over the frames."""
        epochs: list[Epoch] = list(self._pool.map(lambda worker: worker.call("epoch"), self.workers))
        frames = sum(epoch["frames"] for epoch in epochs)
        return {
            "seconds": max(epoch["seconds"] for epoch in epochs),
            "frames": frames,
            "loss": sum(epoch["loss"] * epoch["frames"] for epoch in epochs) / frames,
        }

    def error_rate(self) -> float:
        """Frame error rate on the held-out frames, in %, with the averaged weights."""
        return float(self.workers[0].call("error_rate"))

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def free_port() -> int:
    """A free TCP port of this machine."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
