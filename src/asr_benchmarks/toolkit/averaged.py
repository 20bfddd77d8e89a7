"""Independent workers whose weights are averaged (Doetsch2016 §4.1): by their number, and by how often."""

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import TypeAlias

from omegaconf import DictConfig, OmegaConf

from asr_benchmarks.plots import plot
from asr_benchmarks.tables import Result, Row, published
from asr_benchmarks.timing import in_turn, noise_notes
from asr_benchmarks.toolkit.network import Engine, Epoch
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


LOCAL_SGD = "asr_ablations.components.trainer.local_sgd.LocalSGD"

SOURCE = "Doetsch2016 §6"
"""The source in published/scaling.yaml whose times stand beside those measured."""

Make: TypeAlias = Callable[[DictConfig], Callable[[], Engine]]
"""From the config of a run to what makes its engine in a process."""

Way: TypeAlias = tuple[int, int | None]
"""Workers, and steps between two averagings, None for once per epoch."""

Curve: TypeAlias = list[tuple[float, float]]
"""Seconds of training and the frame error rate in %, after each epoch."""


def averaged_workers(
    cfg: DictConfig,
    make: Make,
    *,
    counts: list[int],
    every: Sequence[int | None],
    threads: int,
    epochs: int,
    warmup: int,
) -> Result:
    """A row for each number of workers and each way to average, and the frame error rate of each over time."""
    ways = ways_to_average(counts, every)
    with ExitStack() as stack:
        groups = {
            name: stack.enter_context(Ranks(make(with_averaging(cfg, span)), count, threads))
            for name, (count, span) in ways.items()
        }
        curves: dict[str, Curve] = {name: [] for name in groups}
        turns = {name: partial(_epoch, group, curves[name]) for name, group in groups.items()}
        timings = in_turn(turns, steps=epochs, warmup=warmup, title="epochs of the workers")
    seconds = {name: timing.median for name, timing in timings.items()}
    rows = [
        {**_row(ways[name], curves[name], seconds[name], seconds.get("1 worker")), "spread %": timing.spread}
        for name, timing in timings.items()
    ]
    series = {name: dict(curve) for name, curve in curves.items()}
    drawn = plot("Frame error rate over time", "lines", "seconds of training", "frame error rate, %", series)
    return Result(tables={"workers": rows}, notes=noise_notes(timings), plots=[drawn])


def ways_to_average(counts: list[int], every: Sequence[int | None]) -> dict[str, Way]:
    """Every way to average, by name. A single worker has nothing to average."""
    pairs = [(count, span) for count in counts for span in (every if count > 1 else [None])]
    return {_name(count, span): (count, span) for count, span in pairs}


def _name(count: int, every: int | None) -> str:
    return f"{count} worker{'s' if count > 1 else ''}{f', every {every} steps' if every else ''}"


def with_averaging(cfg: DictConfig, every: int | None) -> DictConfig:
    """The config with LocalSGD as its trainer. every: steps between two averagings, None for once per epoch."""
    averaged = OmegaConf.create(OmegaConf.to_container(cfg, resolve=True))
    assert isinstance(averaged, DictConfig)
    averaged.trainer = {"_target_": LOCAL_SGD, "every": every}
    return averaged


def _row(way: Way, curve: Curve, seconds: float, alone: float | None) -> Row:
    """The row of one way. seconds: per epoch; alone: per epoch of a single worker."""
    count, every = way
    (printed,) = (experiment["epoch"] for experiment in published("scaling") if experiment["source"] == SOURCE)
    epoch = printed.get(count) if every is None else None
    return {
        "workers": count,
        "averaged": "never" if count == 1 else "once per epoch" if every is None else f"every {every} steps",
        "epochs": len(curve),
        "s per epoch": seconds,
        "speed-up": alone / seconds if alone else None,
        "FER %": curve[-1][1],
        "smallest FER %": min(rate for _, rate in curve),
        "published s": epoch,
        "published speed-up": printed[1] / epoch if epoch else None,
    }


def _epoch(group: Ranks, curve: Curve) -> float:
    """Train one epoch, add a point to the curve, and return the seconds of training."""
    seconds = group.epoch()["seconds"]
    curve.append(((curve[-1][0] if curve else 0.0) + seconds, group.error_rate()))
    return seconds
