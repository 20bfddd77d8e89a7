"""Which networks are measured, where, with how many threads and samples; and their processes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from asr_ablations.tools.errors import choices
from asr_ablations.tools.machine import cores
from asr_benchmarks.networks.framework import Framework
from asr_benchmarks.networks.layers import BatchNorm
from asr_benchmarks.networks.network import Network, walk
from asr_benchmarks.worker import Worker, WorkerError

TOLERANCE = {False: 1e-4, True: 1e-2}
"""Of outputs, as a share of the largest, without and with rounded products (tf32)."""


@dataclass(frozen=True)
class Variant:
    """threads: None on a GPU, where the framework has its own number of the CPU's."""

    network: Network
    framework: str
    device: str
    threads: int | None
    batch: int

    def __str__(self) -> str:
        where = "GPU" if self.threads is None else f"threads={self.threads}"
        return f"{self.network.name} {self.framework}, {where}, {self.batch} samples"

    def start(self, made: Framework, tf32: bool, seed: int) -> Worker:
        """Its process. Raises WorkerError where the framework cannot."""
        own = {"batch": self.batch, "device": self.device, "threads": self.threads, "tf32": tf32, "seed": seed}
        environment = made.environment(self.device, self.threads)
        return Worker(partial(made.trainer, self.network, **own), self.threads, environment)  # type: ignore[arg-type]


def variants(
    network: Network, frameworks: Sequence[str], gpu: bool, threads: Sequence[int], batches: Sequence[float]
) -> list[Variant]:
    """Every number of threads with the paper's mini-batch, and every other mini-batch with as many threads as cores, or
    what comes next to it; on a GPU every mini-batch. Those of a framework stand together.
    """
    sizes = list(dict.fromkeys(max(1, round(part * network.batch)) for part in batches))
    usual = network.batch if network.batch in sizes else sizes[0]
    full = max((count for count in threads if count <= cores()), default=min(threads))
    points: list[tuple[str, int | None, int]] = [("cpu", count, usual) for count in threads]
    points += [("cpu", full, size) for size in sizes if size != usual]
    points += [("gpu", None, size) for size in sizes] if gpu else []
    return [Variant(network, name, *point) for name in frameworks for point in points]


def check(threads: Sequence[Any], batches: Sequence[Any]) -> None:
    """Raises UsageError for what is no number of threads, or no part of a mini-batch."""
    if not threads or not all(type(count) is int and count >= 1 for count in threads):
        raise choices("benchmark.threads", threads, "whole numbers, 1 or more")
    if not batches or not all(type(part) in (int, float) and part > 0 for part in batches):
        raise choices("benchmark.batches", batches, "numbers above 0, by which each network's mini-batch is multiplied")


def chosen(only: Sequence[str], *every: Mapping[str, Any]) -> list[list[str]]:
    """Of each of these the names in `only`; all of one of which none is named. Raises UsageError for other names."""
    known = [name for names in every for name in names]
    for name in only:
        if name not in known:
            raise choices("benchmark.only", name, known)
    return [[name for name in names if name in only] or list(names) for names in every]


class Reference:
    """What the first framework of a network found, for the others to find, too."""

    def __init__(self, tf32: bool) -> None:
        self.tolerance = TOLERANCE[tf32]
        self.known: dict[tuple[str, int], tuple[Any, list[float]]] = {}

    def check(self, variant: Variant, worker: Worker) -> None:
        """Raises WorkerError for another number of parameters, other outputs, or another loss before or after a step.

        The gradient of batch norm over few values multiplies what rounding did: where one is, no loss after a step.
        """
        parameters = worker.call("parameters")
        if parameters != variant.network.parameters:
            raise WorkerError(f"has {parameters:,} parameters instead of {variant.network.parameters:,}")
        normed = any(isinstance(layer, BatchNorm) for _, layer in walk(variant.network.layers))
        found = worker.call("outputs"), worker.call("losses", 2)
        outputs, losses = self.known.setdefault((variant.network.name, variant.batch), found)
        off = float(abs(found[0] - outputs).max() / abs(outputs).max())
        if not off <= self.tolerance:
            raise WorkerError(f"its outputs differ by {off:.1e} of the largest from the first framework's")
        pairs = list(zip(found[1], losses, strict=True))[: 1 if normed else 2]
        apart = max(abs(one - other) / abs(other) for one, other in pairs)
        if not apart <= self.tolerance:
            raise WorkerError(f"its losses differ by {100 * apart:.2g} % from the first framework's")
