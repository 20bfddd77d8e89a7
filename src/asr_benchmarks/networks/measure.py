"""Time the networks of Shi2016 table 2 in each framework, by device, number of threads and mini-batch size."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from omegaconf import DictConfig

from asr_ablations.tools.checks import is_number
from asr_ablations.tools.machine import cores
from asr_ablations.training.assembly import device_count
from asr_benchmarks.frameworks.network import BatchNorm, Network, walk
from asr_benchmarks.plots import Plot, plot
from asr_benchmarks.tables import Result, Row, Table, fill_row, published
from asr_benchmarks.timing import check_counts, in_turn, noise_notes
from asr_benchmarks.worker import Implementation, Worker, WorkerError, choose_runnable, measure_in_turn, run_workers
from asr_verdicts.errors import UsageError, choices

TOLERANCE = {False: 1e-4, True: 1e-2}
"""Largest allowed relative difference in outputs and losses, by the value of `tf32` (true: products are rounded)."""

STEP = "network | framework | device | threads | batch | ms | spread % | samples/s | GFLOP/s | peak GB"
"""Columns of the table `steps`. ms: median step time. peak GB: memory of the GPU, or of the process on a CPU."""

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
    """Measure all networks, and yield the accumulated result after each one."""
    check_counts(shrink=shrink, together=together, steps=steps, warmup=warmup, threads=threads)
    if not batches or not all(is_number(part) and part > 0 for part in batches):
        raise choices("benchmark.batches", batches, "numbers above 0, by which each network's mini-batch is multiplied")
    names, tools = choose_names(only, networks, frameworks)
    built = [networks[name](name, shrink=shrink) for name in names]
    runnable, absent = choose_runnable({name: frameworks[name] for name in tools}, "cpu")
    notes = [*(line for network in built for line in _compare_size(network, shrink)), *absent]
    reference, rows, noise = Reference(bool(cfg.tf32)), list[Row](), list[str]()
    options: dict[str, Any] = {"steps": steps, "warmup": warmup, "budget": budget}
    in_turn({}, **options)  # rejects an invalid budget before any process starts
    for number, network in enumerate(built, start=1):
        every = list_variants(network, list(runnable), device_count(cfg) > 0, threads, batches)
        for start in range(0, len(every), together):
            chunk = every[start : start + together]
            rows += measure_variants(chunk, runnable, reference, int(cfg.seed), noise, **options)
        yield _build_result(rows, built[:number], [*notes, explain_machines(), *noise])


class Variant(NamedTuple):
    """A combination to measure. threads: number of CPU threads, or None on a GPU, where the framework chooses it."""

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
    """List the variants of a network to measure.

    On a CPU, the paper's mini-batch size (or else the first size) is combined with every number of threads, and
    the other sizes with the largest number that does not exceed the cores. On a GPU, every size is measured.
    """
    sizes = list(dict.fromkeys(max(1, round(part * network.batch)) for part in batches))
    usual = network.batch if network.batch in sizes else sizes[0]
    full = max((count for count in threads if count <= cores()), default=min(threads))
    points: list[tuple[str, int | None, int]] = [("cpu", count, usual) for count in threads]
    points += [("cpu", full, size) for size in sizes if size != usual]
    points += [("gpu", None, size) for size in sizes] if gpu else []
    return [Variant(network, name, *point) for name in frameworks for point in points]


def choose_names(only: Sequence[str], *every: Mapping[str, object]) -> list[list[str]]:
    """For each mapping, return the names that are in `only`, or all names if none of them is in `only`.

    Raise UsageError if a name in `only` is in no mapping."""
    allowed = [name for names in every for name in names]
    for name in only:
        if name not in allowed:
            raise choices("benchmark.only", name, allowed)
    return [[name for name in names if name in only] or list(names) for names in every]


class Reference:
    """Outputs and losses of the first framework, by network and batch size. Other frameworks must reproduce them."""

    def __init__(self, tf32: bool) -> None:
        self.tf32, self.tolerance = tf32, TOLERANCE[tf32]
        self.first: dict[tuple[str, int], tuple[np.ndarray, list[float]]] = {}

    def check(self, variant: Variant, worker: Worker) -> None:
        """Raise WorkerError if the number of parameters is wrong, or outputs or losses differ from the reference.

        If the network has batch norm, only the first loss is compared, because gradients through batch norm over few
        values amplify rounding errors.
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
    """Time the variants alternately, each in its own process, and return their rows. Add failures to `notes`."""
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
    gains, printed = _list_gains(rows), list_published_gains(names)
    slower = f"slower {BEYOND.split(' /')[0]}"
    figures: dict[str, object] = {
        "cores": cores(),
        slower: count_slower(gains),
        f"{slower}, {TABLE['source']}": count_slower(printed),
    }
    sizes = []
    for network in networks:
        shape, count = " × ".join(map(str, network.shape)), network.parameters
        about = (network.name, network.kind, shape, network.classes, count, count / 1e6, network.published)
        sizes.append(fill_row(SIZE, *about, network.training_operations / 1e9))
    tables: dict[str, Table] = {"sizes": sizes, "steps": list(rows), "scaling": gains + printed}
    tables["published_seconds_by_threads"] = list_published_seconds(names)
    return Result(figures, tables, notes, [drawn for name in names for drawn in _plot_seconds(name, rows)])


def _compare_size(network: Network, shrink: int) -> list[str]:
    """Return a note if a network's number of parameters differs from Shi2016 table 2."""
    millions = network.parameters / 1e6
    if shrink > 1:
        return [f"{network.name}: sizes divided by benchmark.shrink={shrink}, {millions:.2g} million parameters"]
    if network.published in (int(millions), round(millions)):
        return []
    products = f"a forward pass of one sample has {network.forward_operations / 2e6:.0f} million multiply-additions"
    return [f"{network.name}: {millions:.1f} million parameters, {network.published:g} in Table 2; {products}"]


def _list_gains(rows: Sequence[Row]) -> list[Row]:
    """List each network's speed-ups from threads and a GPU in each framework, at the first measured mini-batch size."""
    gains = []
    for network, framework in dict.fromkeys((row["network"], row["framework"]) for row in rows):
        measured = [row for row in rows if (row["network"], row["framework"]) == (network, framework)]
        same = [row for row in measured if row["batch"] == measured[0]["batch"]]
        cpu = {row["threads"]: row["ms"] for row in same if row["device"] == "cpu"}
        gpu = next((row["ms"] for row in same if row["device"] == "gpu"), None)
        gains.append(build_gain_row(network, framework, "this machine", cores(), cpu, gpu))
    return gains


def _plot_seconds(network: str, rows: Sequence[Row]) -> list[Plot]:
    """Plot seconds against mini-batch size, as in Shi2016 figure 1, and against the number of threads."""
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


BEYOND = "beyond cores / cores"

TABLE = published("networks")
"""Shi2016 table 4. published/networks.yaml explains how it was reconstructed."""


def build_gain_row(
    network: str, framework: str, machine: str, cores: int, seconds: Mapping[int, float], gpu: float | None
) -> Row:
    """Build a row with three time ratios, each of which is None if one of its times was not measured.

    The ratios are: one thread / two threads, more threads than cores / one thread per core, and CPU / GPU.
    """
    full = seconds.get(cores)
    beyond = min((count for count in seconds if count > cores), default=0)
    ratios = {
        "1 to 2 threads": (seconds.get(1), seconds.get(2)),
        BEYOND: (seconds.get(beyond), full),
        "CPU / GPU": (full, gpu),
    }
    return {
        **{"network": network, "framework": framework, "machine": machine, "cores": cores},
        **{name: above / below if above and below else None for name, (above, below) in ratios.items()},
    }


def count_slower(rows: Collection[Row]) -> str | None:
    """Return in how many cases (`n of m`) more threads than cores were slower, or None if no case was measured."""
    ratios = [ratio for row in rows if (ratio := row[BEYOND]) is not None]
    return f"{sum(ratio > 1 for ratio in ratios)} of {len(ratios)}" if ratios else None


def list_published_gains(networks: Collection[str]) -> list[Row]:
    """List the published speed-ups of these networks from more threads and from GPUs."""
    return [
        build_gain_row(network, framework, f"{machine['name']}, published", machine["cores"], threads, gpu)
        for network, framework, machine, threads, gpu in _list_cases(networks)
    ]


def list_published_seconds(networks: Collection[str]) -> list[Row]:
    """List the published seconds per mini-batch for each number of CPU threads and for each GPU."""
    machines = TABLE["machines"].values()
    counts = sorted({count for machine in machines for count in machine["threads"]})
    cases = [(case[0], case[1], case[2]["name"], case[3], case[4]) for case in _list_cases(networks)]
    others: list[Any] = [
        (network, framework, gpu, {}, seconds)
        for network, frameworks in TABLE["seconds"].items()
        for framework, measured in frameworks.items()
        for gpu, seconds in zip(TABLE["gpus"], measured["gpu"], strict=True)
        if network in networks and seconds is not None and gpu not in {machine["gpu"] for machine in machines}
    ]
    return [
        {
            **{"network": network, "framework": framework, "machine": f"{machine}, published"},
            **{str(count): threads.get(count) for count in counts},
            "GPU": gpu,
        }
        for network, framework, machine, threads, gpu in [*cases, *others]
    ]


def explain_machines() -> str:
    machines = [f"{machine['name']}: {machine['about']}" for machine in TABLE["machines"].values()]
    return f"published: {TABLE['source']}, {TABLE['software']}; {'; '.join(machines)}"


def _list_cases(networks: Collection[str]) -> Iterator[tuple[str, str, Any, dict[int, float], float | None]]:
    """Yield (network, framework, machine, seconds by number of CPU threads, seconds on the GPU) as published."""
    for network, frameworks in TABLE["seconds"].items():
        for framework, measured in frameworks.items():
            for key, machine in TABLE["machines"].items():
                pairs = zip(machine["threads"], measured[key], strict=True)
                threads = {count: value for count, value in pairs if value is not None}
                gpu = measured["gpu"][TABLE["gpus"].index(machine["gpu"])]
                if network in networks and (threads or gpu):
                    yield network, framework, machine, threads, gpu
