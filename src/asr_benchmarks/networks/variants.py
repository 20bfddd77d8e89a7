"""Variants to measure: networks, devices, threads and samples, and their processes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from asr_ablations.tools.checks import is_number, is_whole
from asr_ablations.tools.machine import cores
from asr_benchmarks.networks.layers import BatchNorm
from asr_benchmarks.networks.network import Framework, Network, walk
from asr_benchmarks.worker import Worker, WorkerError
from asr_verdicts.errors import choices

TOLERANCE = {False: 1e-4, True: 1e-2}
"""Allowed difference of outputs, as a share of the largest, without and with rounded products (tf32)."""


@dataclass(frozen=True)
class Variant:
    """A network in a framework. threads: those of the CPU; None on a GPU, where the framework chooses them."""

    network: Network
    framework: str
    device: str
    threads: int | None
    batch: int

    def __str__(self) -> str:
        where = "GPU" if self.threads is None else f"threads={self.threads}"
        return f"{self.network.name} {self.framework}, {where}, {self.batch} samples"

    def start(self, framework: Framework, tf32: bool, seed: int) -> Worker:
        """Start its trainer in a process of its own. Raises WorkerError if the framework cannot do it."""
        make = partial(
            framework.trainer,
            self.network,
            batch=self.batch,
            device=self.device,
            threads=self.threads,
            tf32=tf32,
            seed=seed,
        )
        return Worker(make, self.threads, framework.environment(self.device, self.threads))


def variants(
    network: Network, frameworks: Sequence[str], gpu: bool, threads: Sequence[int], batches: Sequence[float]
) -> list[Variant]:
    """Every number of threads with the paper's mini-batch, and every other mini-batch with as many threads as cores, or
    the next smaller number; on a GPU every mini-batch. The variants of a framework stand together.

    batches: shares of the paper's mini-batch.
    """
    sizes = list(dict.fromkeys(max(1, round(part * network.batch)) for part in batches))
    usual = network.batch if network.batch in sizes else sizes[0]
    full = max((count for count in threads if count <= cores()), default=min(threads))
    points: list[tuple[str, int | None, int]] = [("cpu", count, usual) for count in threads]
    points += [("cpu", full, size) for size in sizes if size != usual]
    points += [("gpu", None, size) for size in sizes] if gpu else []
    return [Variant(network, name, *point) for name in frameworks for point in points]


def check(threads: Sequence[object], batches: Sequence[object]) -> None:
    """Raises UsageError for a wrong number of threads or a wrong share of a mini-batch."""
    if not threads or not all(is_whole(count, 1) for count in threads):
        raise choices("benchmark.threads", threads, "whole numbers, 1 or more")
    if not batches or not all(is_number(part) and part > 0 for part in batches):
        raise choices("benchmark.batches", batches, "numbers above 0, by which each network's mini-batch is multiplied")


def chosen(only: Sequence[str], *every: Mapping[str, object]) -> list[list[str]]:
    """The names in `only` of each kind; all names of a kind that `only` does not mention. Raises UsageError for a name
    that no kind has.
    """
    known = [name for names in every for name in names]
    for name in only:
        if name not in known:
            raise choices("benchmark.only", name, known)
    return [[name for name in names if name in only] or list(names) for names in every]


class Reference:
    """Outputs and losses of the first framework of each network and mini-batch, which the others have to reproduce."""

    def __init__(self, tf32: bool) -> None:
        self.tolerance = TOLERANCE[tf32]
        self.known: dict[tuple[str, int], tuple[np.ndarray, list[float]]] = {}

    def check(self, variant: Variant, worker: Worker) -> None:
        """Raises WorkerError for another number of parameters, other outputs, or another loss before or after a step.

        The gradient of batch norm over few values multiplies rounding errors: with batch norm, only the loss before the
        step is compared.
        """
        parameters = worker.call("parameters")
        if parameters != variant.network.parameters:
            raise WorkerError(f"has {parameters:,} parameters instead of {variant.network.parameters:,}")
        normed = any(isinstance(layer, BatchNorm) for _, layer in walk(variant.network.layers))
        own_outputs, own_losses = worker.call("outputs"), worker.call("losses", 2)
        key = (variant.network.name, variant.batch)
        outputs, losses = self.known.setdefault(key, (own_outputs, own_losses))
        difference = float(abs(own_outputs - outputs).max() / abs(outputs).max())
        if not difference <= self.tolerance:
            raise WorkerError(f"its outputs differ by {difference:.1e} of the largest from the first framework's")
        pairs = list(zip(own_losses, losses, strict=True))[: 1 if normed else 2]
        relative = max(abs(own - first) / abs(first) for own, first in pairs)
        if not relative <= self.tolerance:
            raise WorkerError(f"its losses differ by {100 * relative:.2g} % from the first framework's")
