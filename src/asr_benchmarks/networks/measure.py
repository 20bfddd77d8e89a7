"""Seconds a mini-batch of the six networks of Shi et al. 2016, in every framework, by threads, samples and device."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from omegaconf import DictConfig

from asr_ablations.tools.machine import cores
from asr_ablations.tools.progress_bar import bar
from asr_ablations.training.assembly import device_count
from asr_benchmarks import timing
from asr_benchmarks.networks import published
from asr_benchmarks.networks.network import Network
from asr_benchmarks.networks.threads import BEYOND, finding
from asr_benchmarks.networks.threads import row as scaling
from asr_benchmarks.networks.variants import Reference, Variant, check, chosen, variants
from asr_benchmarks.plots import plot
from asr_benchmarks.timing import in_turn, noise
from asr_benchmarks.worker import Worker, WorkerError, missing

HERE = "this machine"


def network_speed(
    cfg: DictConfig,
    *,
    networks: dict[str, Any],
    frameworks: dict[str, Any],
    only: list[str],
    threads: list[int],
    batches: list[float],
    shrink: int,
    together: int,
    steps: int,
    warmup: int,
    budget: float | None,
) -> Iterator[dict[str, Any]]:
    """After each network what is found so far. In `sizes` what is trained, with the millions of the paper's Table 2; in
    `steps` the milliseconds of forward, backward and update, with samples and operations a second and the peak of
    memory, a process's libraries included; in `scaling` what threads and a GPU gain, beside what the paper's Table 4
    says; in the last table its seconds.
    """
    timing.check(shrink=shrink, together=together, steps=steps, warmup=warmup)
    check(threads, batches)
    names, tools = chosen(only, networks, frameworks)
    made = {name: networks[name](name, shrink=shrink) for name in names}
    notes = [line for network in made.values() for line in _unlike_the_paper(network, shrink)]
    for name in [name for name in tools if (lacking := missing(frameworks[name].packages))]:
        lacking = missing(frameworks[name].packages)
        tools.remove(name)
        notes.append(f"{name} left out, {', '.join(lacking)} missing: pip install 'asr-ablations[benchmarks]'")
    measured = Measured(frameworks, bool(cfg.tf32), int(cfg.seed), steps=steps, warmup=warmup, budget=budget)
    gpu = device_count(cfg) > 0
    for number, network in enumerate(made.values(), start=1):
        every = variants(network, tools, gpu, threads, batches)
        for start in range(0, len(every), together):
            measured.add(every[start : start + together])
        yield _result(measured, list(made.values())[:number], notes)


def _result(measured: "Measured", networks: Sequence[Network], notes: list[str]) -> dict[str, Any]:
    names = [network.name for network in networks]
    gains = _scaling(measured.rows)
    theirs = published.scaling(names)
    return {
        "cores": cores(),
        f"slower {BEYOND.split(' /')[0]}": finding(gains),
        f"slower {BEYOND.split(' /')[0]}, {published.table()['source']}": finding(theirs),
        "sizes": [_size(network) for network in networks],
        "steps": list(measured.rows),
        "scaling": gains + theirs,
        "published_seconds_by_threads": published.seconds(names),
        "notes": [*notes, published.note(), *measured.notes],
        "plots": _plots(measured.rows),
    }


class Measured:
    """Rows and notes of what was measured so far."""

    def __init__(self, frameworks: dict[str, Any], tf32: bool, seed: int, **how: Any) -> None:
        self.frameworks, self.tf32, self.seed, self.how = frameworks, tf32, seed, how
        self.reference = Reference(tf32)
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def add(self, chunk: Sequence[Variant]) -> None:
        """Those that can be started, in turn, each in a process of its own."""
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

    def _time(self, workers: dict[Variant, Worker]) -> None:
        calls = {str(variant): partial(worker.call, "step") for variant, worker in workers.items()}
        name = next(iter(workers)).network.name
        try:
            timings = in_turn(calls, **self.how, title=f"measuring {name}")
            for variant, worker in workers.items():
                memory = worker.call("device_memory") or worker.peak_memory()
                self.rows.append(_row(variant, timings[str(variant)], memory))
            self.notes += noise(timings)
        except WorkerError as error:
            self.notes.append(f"{', '.join(calls)}: not measured, one of them failed: {error}")


def _row(variant: Variant, timing: timing.Timing, memory: int) -> dict[str, Any]:
    a_second, told = variant.batch / timing.median, timing.row()
    return {
        **{"network": variant.network.name, "framework": variant.framework, "device": variant.device},
        **{"threads": variant.threads, "batch": variant.batch},
        **{key: told[key] for key in ("ms", "spread %")},
        "samples/s": a_second,
        "GFLOP/s": a_second * variant.network.training_operations / 1e9,
        "peak GB": memory / 1e9,
    }


def _size(network: Network) -> dict[str, Any]:
    shape = " × ".join(map(str, network.shape))
    return {
        **{"network": network.name, "kind": network.kind, "input": shape, "outputs": network.classes},
        **{"parameters": network.parameters, "millions": network.parameters / 1e6, "Table 2": network.published},
        "GFLOP a sample": network.training_operations / 1e9,
    }


def _unlike_the_paper(network: Network, shrink: int) -> list[str]:
    """Notes of sizes that are not those of Table 2."""
    millions = network.parameters / 1e6
    if shrink > 1:
        return [f"{network.name}: sizes divided by benchmark.shrink={shrink}, {millions:.2g} million parameters"]
    if network.published in (int(millions), round(millions)):
        return []
    products = f"the multiply-additions of a sample, forwards, are {network.forward_operations / 2e6:.0f} millions"
    return [f"{network.name}: {millions:.1f} million parameters, {network.published:g} in Table 2; {products}"]


def _scaling(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each network in each framework, with the first of its mini-batches: the paper's, where that is measured."""
    found = []
    for network, framework in dict.fromkeys((row["network"], row["framework"]) for row in rows):
        own = [row for row in rows if (row["network"], row["framework"]) == (network, framework)]
        same = [row for row in own if row["batch"] == own[0]["batch"]]
        cpu = {row["threads"]: row["ms"] for row in same if row["device"] == "cpu"}
        gpu = next((row["ms"] for row in same if row["device"] == "gpu"), None)
        found.append(scaling(network, framework, HERE, cores(), cpu, gpu))
    return found


def _plots(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By the size of the mini-batch, as Figure 1 of the paper, and by threads; where there is more than one."""
    found = []
    for network in dict.fromkeys(row["network"] for row in rows):
        own = [row for row in rows if row["network"] == network]
        for x in ("batch", "threads"):
            series: dict[str, dict[Any, float | None]] = {}
            for row in own:
                if row[x] is not None:
                    fixed = "GPU" if row["threads"] is None else f"threads={row['threads']}"
                    other = fixed if x == "batch" else f"{row['batch']} samples"
                    series.setdefault(f"{row['framework']}, {other}", {})[row[x]] = row["ms"] / 1000
            lines = {name: points for name, points in series.items() if len(points) > 1}
            if lines:
                title = f"{network} by {'mini-batch' if x == 'batch' else 'threads'}"
                label = "samples in a mini-batch" if x == "batch" else "threads"
                found.append(plot(title, "lines", label, "seconds a mini-batch", lines, log=True))
    return found
