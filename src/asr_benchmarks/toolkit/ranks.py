"""Processes that train together, each on its share of the batches (papers/002 §4.1)."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from asr_benchmarks.worker import Worker


class Ranks:
    """One engine in `count` processes of `threads` threads each, as torchrun would start them."""

    def __init__(self, make: Callable[[], Any], count: int, threads: int) -> None:
        self.count = count
        self._stack = ExitStack()
        self._pool = self._stack.enter_context(ThreadPoolExecutor(count))
        place = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
        # no `threads` of the worker's: it would give the same cores to all of them
        shared = {**place, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "NODE_RANK": 0}
        self.workers = []
        for rank in range(count):
            told = {name: str(value) for name, value in {**shared, "RANK": rank, "LOCAL_RANK": rank}.items()}
            self.workers.append(self._stack.enter_context(Worker(make, environment=told, wait=False)))

    def epoch(self) -> dict[str, float]:
        """seconds of the slowest, frames of all, and the mean of their losses in nats a frame."""
        found = list(self._pool.map(lambda worker: worker.call("epoch"), self.workers))
        frames = sum(one["frames"] for one in found)
        return {
            "seconds": max(one["seconds"] for one in found),
            "frames": frames,
            "loss": sum(one["loss"] * one["frames"] for one in found) / frames,
        }

    def error_rate(self) -> float:
        """Of held-out frames, in %, with the averaged weights."""
        return float(self.workers[0].call("error_rate"))

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def free_port() -> int:
    """Of this machine."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
