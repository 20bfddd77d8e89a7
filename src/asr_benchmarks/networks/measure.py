"""Seconds per mini-batch of the networks of Shi2016 table 2, by framework, threads, samples and device."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from omegaconf import DictConfig

from asr_ablations.tools.checks import is_number
from asr_ablations.tools.machine import cores
from asr_ablations.training.assembly import device_count
from asr_benchmarks.frameworks.network import BatchNorm, Network, walk
from asr_benchmarks.networks import published
from asr_benchmarks.networks.published import BEYOND, build_gain_row
from asr_benchmarks.plots import Plot, plot
from asr_benchmarks.tables import Result, Row, Table, fill_row
from asr_benchmarks.timing import check_counts, in_turn, noise_notes
from asr_benchmarks.worker import (
    Implementation,
    Worker,
    WorkerError,
    choose_runnable,
    measure_in_turn,
    run_workers,
)
from asr_verdicts.errors import UsageError, choices

TOLERANCE = {False: 1e-4, True: 1e-2}
"""Allowed difference of outputs relative to the largest output, without and with rounded products (tf32)."""

STEP = "network | framework | device | threads | batch | ms | spread % | samples/s | GFLOP/s | peak GB"
"""Columns of `steps`. ms: median; peak GB: memory of the GPU, or of the process including libraries."""

SIZE = "network | kind | input | outputs | parameters | millions | Table 2 | GFLOP per sample"


def network_speed(
    cfg: DictConfig,
    *,
    networks: Mapping[str, Callable[..., Network]],
    frameworks: Mapping[str, Implementation],
    only: list[str],
    threads: list[int],
    batches: list[float],
    shrink: int,
    together: int,
    steps: int,
    warmup: int,
    budget: float | None,
) -> Iterator[Result]:
    """Yield the result so far after each network."""
    check_counts(shrink=shrink, together=together, steps=steps, warmup=warmup, threads=threads)
    if not batches or not all(is_number(part) and part > 0 for part in batches):
        raise choices("benchmark.batches", batches, "numbers above 0, by which each network's mini-batch is multiplied")
    names, tools = choose_names(only, networks, frameworks)
    built = [networks[name](name, shrink=shrink) for name in names]
    runnable, absent = choose_runnable({name: frameworks[name] for name in tools}, "cpu")
    notes = [*(line for network in built for line in _compare_size(network, shrink)), *absent]
    reference, rows, noise = Reference(bool(cfg.tf32)), list[Row](), list[str]()
    options: dict[str, Any] = {"steps": steps, "warmup": warmup, "budget": budget}
    in_turn({}, **options)  # raises for a wrong budget before anything starts
    for number, network in enumerate(built, start=1):
        every = list_variants(network, list(runnable), device_count(cfg) > 0, threads, batches)
        for start in range(0, len(every), together):
            chunk = every[start : start + together]
            rows += measure_variants(chunk, runnable, reference, int(cfg.seed), noise, **options)
        yield _build_result(rows, built[:number], [*notes, published.explain_machines(), *noise])


class Variant(NamedTuple):
    """A network in a framework. threads: of the CPU; None on a GPU, where the framework chooses."""

    network: Network
    framework: str
    device: str
    threads: int | None
    batch: int

    def __str__(self) -> str:
        place = "GPU" if self.threads is None else f"threads={self.threads}"
        return f"{self.network.name} {self.framework}, {place}, {self.batch} samples"


def list_variants(
    network: Network, frameworks: Sequence[str], gpu: bool, threads: Sequence[int], batches: Sequence[float]
) -> list[Variant]:
    """List the variants: numbers of threads with the paper's mini-batch, other mini-batches with all cores. If
    `threads` lacks the number of cores, the next smaller number is used. A GPU gets every mini-batch.
    """
    sizes = list(dict.fromkeys(max(1, round(part * network.batch)) for part in batches))
    usual = network.batch if network.batch in sizes else sizes[0]
    full = max((count for count in threads if count <= cores()), default=min(threads))
    points: list[tuple[str, int | None, int]] = [("cpu", count, usual) for count in threads]
    points += [("cpu", full, size) for size in sizes if size != usual]
    points += [("gpu", None, size) for size in sizes] if gpu else []
    return [Variant(network, name, *point) for name in frameworks for point in points]


def choose_names(only: Sequence[str], *every: Mapping[str, object]) -> list[list[str]]:
    """Choose the names in `only` of each kind, or all of a kind that it does not mention. Raises UsageError."""
    allowed = [name for names in every for name in names]
    for name in only:
        if name not in allowed:
            raise choices("benchmark.only", name, allowed)
    return [[name for name in names if name in only] or list(names) for names in every]


class Reference:
    """Outputs and losses of the first framework, by network and mini-batch, which the others must reproduce."""

    def __init__(self, tf32: bool) -> None:
        self.tf32, self.tolerance = tf32, TOLERANCE[tf32]
        self.first: dict[tuple[str, int], tuple[np.ndarray, list[float]]] = {}

    def check(self, variant: Variant, worker: Worker) -> None:
        """Raise WorkerError for other parameters, outputs or losses. Gradients of batch norm over few values multiply
        rounding errors, so networks with batch norm are only compared by their first loss.
        """
        parameters = worker.call("parameters")
        if parameters != variant.network.parameters:
            raise WorkerError(f"has {parameters:,} parameters instead of {variant.network.parameters:,}")
        has_batch_norm = any(isinstance(layer, BatchNorm) for _, layer in walk(variant.network.layers))
        outputs, losses = worker.call("outputs", 2), [worker.call("step").loss for _ in range(2)]
        expected, first_losses = self.first.setdefault((variant.network.name, variant.batch), (outputs, losses))
        difference = float(abs(outputs - expected).max() / abs(expected).max())
        if not difference <= self.tolerance:
            raise WorkerError(f"its outputs differ by {difference:.1e} (relative) from the first framework's")
        pairs = list(zip(losses, first_losses, strict=True))[: 1 if has_batch_norm else 2]
        relative = max(abs(loss - first) / abs(first) for loss, first in pairs)
        if not relative <= self.tolerance:
            raise WorkerError(f"its losses differ by {100 * relative:.2g} % from the first framework's")


def measure_variants(
    chunk: Sequence[Variant],
    frameworks: Mapping[str, Implementation],
    reference: Reference,
    seed: int,
    notes: list[str],
    **options: Any,
) -> list[Row]:
    """Time the variants in turn, each in a separate process. Variants that cannot start become notes."""
    starts = {}
    for variant in chunk:
        place: dict[str, Any] = {"device": variant.device, "threads": variant.threads}
        keys = {"batch": variant.batch, "seed": seed, "tf32": reference.tf32, **place}
        starts[variant] = partial(frameworks[variant.framework].start, variant.network, **place, keys=keys)
    name = chunk[0].network.name
    with run_workers(starts, reference.check, f"starting {name}", notes) as workers:
        try:
            measured = measure_in_turn(workers, title=f"measuring {name}", **options)
        except UsageError as error:
            notes.append(f"{', '.join(map(str, workers))}: not measured: {error}")
            return []
    notes += noise_notes({str(variant): result.timing for variant, result in measured.items()})
    rows = []
    for variant, result in measured.items():
        rate = variant.batch / result.timing.median
        speeds = (1000 * result.timing.median, result.timing.spread, rate)
        memory, flops = result.device_memory or result.memory, rate * variant.network.training_operations / 1e9
        rows.append(fill_row(STEP, variant.network.name, *variant[1:], *speeds, flops, memory / 1e9))
    return rows


def _build_result(rows: Sequence[Row], networks: Sequence[Network], notes: list[str]) -> Result:
    names = [network.name for network in networks]
    gains, printed = _list_gains(rows), published.list_gains(names)
    slower = f"slower {BEYOND.split(' /')[0]}"
    figures: dict[str, object] = {
        "cores": cores(),
        slower: published.count_slower(gains),
        f"{slower}, {published.TABLE['source']}": published.count_slower(printed),
    }
    sizes = []
    for network in networks:
        shape, count = " × ".join(map(str, network.shape)), network.parameters
        about = (network.name, network.kind, shape, network.classes, count, count / 1e6, network.published)
        sizes.append(fill_row(SIZE, *about, network.training_operations / 1e9))
    tables: dict[str, Table] = {"sizes": sizes, "steps": list(rows), "scaling": gains + printed}
    tables["published_seconds_by_threads"] = published.list_seconds(names)
    return Result(figures, tables, notes, [drawn for name in names for drawn in _plot_seconds(name, rows)])


def _compare_size(network: Network, shrink: int) -> list[str]:
    """Write a note if sizes differ from Table 2."""
    millions = network.parameters / 1e6
    if shrink > 1:
        return [f"{network.name}: sizes divided by benchmark.shrink={shrink}, {millions:.2g} million parameters"]
    if network.published in (int(millions), round(millions)):
        return []
    products = f"a forward pass of one sample has {network.forward_operations / 2e6:.0f} million multiply-additions"
    return [f"{network.name}: {millions:.1f} million parameters, {network.published:g} in Table 2; {products}"]


def _list_gains(rows: Sequence[Row]) -> list[Row]:
    """List the gains from threads and a GPU, by network and framework, for the first measured mini-batch."""
    gains = []
    for network, framework in dict.fromkeys((row["network"], row["framework"]) for row in rows):
        measured = [row for row in rows if (row["network"], row["framework"]) == (network, framework)]
        same = [row for row in measured if row["batch"] == measured[0]["batch"]]
        cpu = {row["threads"]: row["ms"] for row in same if row["device"] == "cpu"}
        gpu = next((row["ms"] for row in same if row["device"] == "gpu"), None)
        gains.append(build_gain_row(network, framework, "this machine", cores(), cpu, gpu))
    return gains


def _plot_seconds(network: str, rows: Sequence[Row]) -> list[Plot]:
    """Plot seconds by size of the mini-batch, as in Figure 1 of the paper, and by threads."""
    by_batch: dict[str, dict[int, float]] = {}
    by_threads: dict[str, dict[int, float]] = {}
    for row in rows:
        if row["network"] != network:
            continue
        framework, count, seconds = row["framework"], row["threads"], row["ms"] / 1000
        place = "GPU" if count is None else f"threads={count}"
        by_batch.setdefault(f"{framework}, {place}", {})[row["batch"]] = seconds
        if count is not None:
            by_threads.setdefault(f"{framework}, {row['batch']} samples", {})[count] = seconds
    plots = []
    for title, x, lines in (("mini-batch", "samples in a mini-batch", by_batch), ("threads", "threads", by_threads)):
        if longer := {name: points for name, points in lines.items() if len(points) > 1}:
            plots.append(plot(f"{network} by {title}", "lines", x, "seconds per mini-batch", longer, log=True))
    return plots
