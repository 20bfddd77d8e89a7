"""Seconds per mini-batch of the six networks of Shi2016 table 2, in every framework, by threads, samples and device."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TypedDict

from omegaconf import DictConfig

from asr_ablations.tools.machine import cores
from asr_ablations.training.assembly import device_count
from asr_benchmarks.networks import published
from asr_benchmarks.networks.network import Framework, Network
from asr_benchmarks.networks.published import BEYOND, GainRow, finding
from asr_benchmarks.networks.published import row as gain_row
from asr_benchmarks.networks.variants import Reference, Variant, check, chosen, variants
from asr_benchmarks.plots import Plot, plot
from asr_benchmarks.tables import Result, Row
from asr_benchmarks.timing import Timing, check_counts, in_turn, noise_notes
from asr_benchmarks.worker import Worker, WorkerError, missing
from asr_verdicts.terminal import bar

THIS_MACHINE = "this machine"

StepRow = TypedDict(
    "StepRow",
    {
        "network": str,
        "framework": str,
        "device": str,
        "threads": int | None,
        "batch": int,
        "ms": float,
        "spread %": float,
        "samples/s": float,
        "GFLOP/s": float,
        "peak GB": float,
    },
)
"""The training step of a variant. ms: median; peak GB: memory of the GPU, or of the process with its libraries."""


def network_speed(
    cfg: DictConfig,
    *,
    networks: Mapping[str, Callable[..., Network]],
    frameworks: Mapping[str, Framework],
    only: list[str],
    threads: list[int],
    batches: list[float],
    shrink: int,
    together: int,
    steps: int,
    warmup: int,
    budget: float | None,
) -> Iterator[Result]:
    """Yields, after each network, what has been measured so far.

    In `sizes`: what is trained, with the millions of parameters of the paper's Table 2. In `steps`: the milliseconds of
    forward pass, backward pass and update, with samples and operations per second and the peak of memory, a process's
    libraries included. In `scaling`: what threads and a GPU gain, beside what the paper's Table 4 says. The last table
    holds the paper's seconds.
    """
    check_counts(shrink=shrink, together=together, steps=steps, warmup=warmup)
    check(threads, batches)
    names, tools = chosen(only, networks, frameworks)
    built = [networks[name](name, shrink=shrink) for name in names]
    notes = [line for network in built for line in _unlike_the_paper(network, shrink)]
    absent = {name: packages for name in tools if (packages := missing(frameworks[name].packages))}
    for name, packages in absent.items():
        notes.append(f"{name} left out, {', '.join(packages)} missing: pip install '.[benchmarks]'")
    installed = [name for name in tools if name not in absent]
    measured = Measured(frameworks, bool(cfg.tf32), int(cfg.seed), steps=steps, warmup=warmup, budget=budget)
    gpu = device_count(cfg) > 0
    for number, network in enumerate(built, start=1):
        every = variants(network, installed, gpu, threads, batches)
        for start in range(0, len(every), together):
            measured.add(every[start : start + together])
        yield _result(measured, built[:number], notes)


def _result(measured: "Measured", networks: Sequence[Network], notes: Sequence[str]) -> Result:
    names = [network.name for network in networks]
    gains, printed = _scaling(measured.rows), published.scaling(names)
    slower = f"slower {BEYOND.split(' /')[0]}"
    return Result(
        figures={
            "cores": cores(),
            slower: finding(gains),
            f"{slower}, {published.table()['source']}": finding(printed),
        },
        tables={
            "sizes": [_size(network) for network in networks],
            "steps": list(measured.rows),
            "scaling": gains + printed,
            "published_seconds_by_threads": published.seconds(names),
        },
        notes=[*notes, published.note(), *measured.notes],
        plots=_plots(measured.rows),
    )


class Measured:
    """Rows and notes of the variants that have been measured so far."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        tf32: bool,
        seed: int,
        *,
        steps: int,
        warmup: int,
        budget: float | None,
    ) -> None:
        self.frameworks, self.tf32, self.seed = frameworks, tf32, seed
        self.steps, self.warmup, self.budget = steps, warmup, budget
        self.reference = Reference(tf32)
        self.rows: list[StepRow] = []
        self.notes: list[str] = []

    def add(self, chunk: Sequence[Variant]) -> None:
        """Time the variants that can be started, in turn, each in a process of its own; the others become notes."""
        with ExitStack() as stack:
            workers: dict[Variant, Worker] = {}
            with bar(f"starting {chunk[0].network.name}", len(chunk)) as advance:
                for variant in chunk:
                    try:
                        worker = variant.start(self.frameworks[variant.framework], self.tf32, self.seed)
                        stack.callback(worker.close)
                        self.reference.check(variant, worker)
                        workers[variant] = worker
                    except WorkerError as error:
                        self.notes.append(f"{variant}: {str(error).splitlines()[0]}")
                    advance(1)
            if workers:
                self._time(workers)

    def _time(self, workers: Mapping[Variant, Worker]) -> None:
        calls = {str(variant): partial(worker.call, "step") for variant, worker in workers.items()}
        title = f"measuring {next(iter(workers)).network.name}"
        try:
            timings = in_turn(calls, steps=self.steps, warmup=self.warmup, budget=self.budget, title=title)
            for variant, worker in workers.items():
                memory = worker.call("device_memory") or worker.peak_memory()
                self.rows.append(_row(variant, timings[str(variant)], memory))
            self.notes += noise_notes(timings)
        except WorkerError as error:
            self.notes.append(f"{', '.join(calls)}: not measured, one of them failed: {error}")


def _row(variant: Variant, timing: Timing, memory: int) -> StepRow:
    rate = variant.batch / timing.median
    return {
        "network": variant.network.name,
        "framework": variant.framework,
        "device": variant.device,
        "threads": variant.threads,
        "batch": variant.batch,
        "ms": 1000 * timing.median,
        "spread %": timing.spread,
        "samples/s": rate,
        "GFLOP/s": rate * variant.network.training_operations / 1e9,
        "peak GB": memory / 1e9,
    }


def _size(network: Network) -> Row:
    return {
        "network": network.name,
        "kind": network.kind,
        "input": " × ".join(map(str, network.shape)),
        "outputs": network.classes,
        "parameters": network.parameters,
        "millions": network.parameters / 1e6,
        "Table 2": network.published,
        "GFLOP per sample": network.training_operations / 1e9,
    }


def _unlike_the_paper(network: Network, shrink: int) -> list[str]:
    """A note for sizes that are not those of Table 2."""
    millions = network.parameters / 1e6
    if shrink > 1:
        return [f"{network.name}: sizes divided by benchmark.shrink={shrink}, {millions:.2g} million parameters"]
    if network.published in (int(millions), round(millions)):
        return []
    products = f"the multiply-additions of a sample, forwards, are {network.forward_operations / 2e6:.0f} millions"
    return [f"{network.name}: {millions:.1f} million parameters, {network.published:g} in Table 2; {products}"]


def _scaling(rows: Sequence[StepRow]) -> list[GainRow]:
    """Return the gain from threads and from a GPU for each network in each framework, with its first mini-batch: the
    paper's, if that is measured.
    """
    gains = []
    for network, framework in dict.fromkeys((row["network"], row["framework"]) for row in rows):
        own = [row for row in rows if (row["network"], row["framework"]) == (network, framework)]
        same = [row for row in own if row["batch"] == own[0]["batch"]]
        cpu = {row["threads"]: row["ms"] for row in same if row["device"] == "cpu" and row["threads"] is not None}
        gpu = next((row["ms"] for row in same if row["device"] == "gpu"), None)
        gains.append(gain_row(network, framework, THIS_MACHINE, cores(), cpu, gpu))
    return gains


def _plots(rows: Sequence[StepRow]) -> list[Plot]:
    """Seconds by the size of the mini-batch, as in Figure 1 of the paper, and by threads, for each network with more
    than one of them.
    """
    plots = []
    for network in dict.fromkeys(row["network"] for row in rows):
        own = [row for row in rows if row["network"] == network]
        by_batch, by_threads = _lines(own)
        if by_batch:
            plots.append(_plot(f"{network} by mini-batch", "samples in a mini-batch", by_batch))
        if by_threads:
            plots.append(_plot(f"{network} by threads", "threads", by_threads))
    return plots


def _lines(rows: Sequence[StepRow]) -> tuple[dict[str, dict[int, float]], dict[str, dict[int, float]]]:
    """Lines of seconds, by mini-batch and by threads, without those of a single point."""
    by_batch: dict[str, dict[int, float]] = {}
    by_threads: dict[str, dict[int, float]] = {}
    for row in rows:
        framework, count, seconds = row["framework"], row["threads"], row["ms"] / 1000
        place = "GPU" if count is None else f"threads={count}"
        by_batch.setdefault(f"{framework}, {place}", {})[row["batch"]] = seconds
        if count is not None:
            by_threads.setdefault(f"{framework}, {row['batch']} samples", {})[count] = seconds
    return _longer(by_batch), _longer(by_threads)


def _longer(lines: Mapping[str, dict[int, float]]) -> dict[str, dict[int, float]]:
    return {name: points for name, points in lines.items() if len(points) > 1}


def _plot(title: str, x: str, lines: Mapping[str, Mapping[int, float]]) -> Plot:
    return plot(title, "lines", x, "seconds per mini-batch", lines, log=True)
