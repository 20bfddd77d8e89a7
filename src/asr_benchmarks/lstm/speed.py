"""Training steps of LSTM networks in several frameworks, with equal weights, in turn (papers/000)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from omegaconf import DictConfig

from asr_ablations.tools.errors import UsageError, choices
from asr_ablations.tools.progress_bar import bar
from asr_benchmarks.lstm.agreement import Agreement, Expected, refused
from asr_benchmarks.lstm.configuration import Configuration, chosen_of
from asr_benchmarks.lstm.implementation import Implementation
from asr_benchmarks.lstm.published import rows as published_rows
from asr_benchmarks.lstm.published import times_faster
from asr_benchmarks.plots import plot
from asr_benchmarks.timing import Timing, check, in_turn, noise
from asr_benchmarks.worker import Worker, WorkerError, missing

NOT_CUDNN = "on a CPU nn.LSTM is torch's own loop; the paper's PyTorch cuDNNLSTM, beside which it stands, ran on a GPU"


def lstm_speed(
    cfg: DictConfig,
    *,
    networks: Mapping[str, Mapping[str, Any]],
    configurations: list[str],
    implementations: Mapping[str, Implementation],
    only: list[str] | None,
    scale: float,
    steps: int,
    warmup: int,
    budget: float | None,
    threads: int | None,
) -> Iterator[dict[str, Any]]:
    """After each configuration what is found so far. In `steps` the milliseconds of a training step (batch to the
    device, forwards, backwards, Adam) of each configuration and implementation, and how many times faster than the
    configuration's slowest it is, here and in the paper; in `numbers_and_memory` how far its logits and loss are from
    the reference's, what its first step takes off the loss, and the memory of its process; in `published` the paper's
    ratios with ours beside. An implementation that computes other numbers is told and not measured.
    """
    check(steps=steps, warmup=warmup, **({} if threads is None else {"threads": threads}))
    turns = partial(in_turn, steps=steps, warmup=warmup, budget=budget)
    turns({})  # a wrong budget is told before anything starts
    chosen = chosen_of(networks, configurations, scale)
    variants, notes = _installed(_only(implementations, only))
    device = _device(cfg)
    if scale != 1:
        notes.append(f"sizes are the paper's times {scale:g}; its ratios are of the whole ones")
    if device == "cpu" and "torch_lstm" in variants:
        notes.append(NOT_CUDNN)
    found = {}
    for one in chosen:
        start = partial(Implementation.start, configuration=one, seed=cfg.seed, device=device, threads=threads)
        found[one.name] = _measured(one, variants, cfg.seed, start, turns)
        yield {"device": device, **_result(found, variants, notes)}


def _only(implementations: Mapping[str, Implementation], only: list[str] | None) -> dict[str, Implementation]:
    if only is None:
        return dict(implementations)
    if not only or not all(name in implementations for name in only):
        raise choices("benchmark.only", only, f"null for all, or a list of some: {', '.join(implementations)}")
    return {name: one for name, one in implementations.items() if name in only}


def _installed(variants: Mapping[str, Implementation]) -> tuple[dict[str, Implementation], list[str]]:
    """Those whose packages are there, and a line for each other."""
    absent = {name: missing(one.packages) for name, one in variants.items()}
    notes = [
        f"{name}: not measured, {' and '.join(packages)} not installed; pip install 'asr-ablations[benchmarks]'"
        for name, packages in absent.items()
        if packages
    ]
    return {name: one for name, one in variants.items() if not absent[name]}, notes


def _device(cfg: DictConfig) -> str:
    from asr_ablations.training.assembly import device_count

    return "cuda" if device_count(cfg) else "cpu"


@dataclass
class Found:
    """What was measured of one configuration, by implementation; memory in bytes, of the process and of the GPU."""

    timings: dict[str, Timing] = field(default_factory=dict)
    agreements: dict[str, Agreement] = field(default_factory=dict)
    memory: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def _measured(
    configuration: Configuration,
    variants: Mapping[str, Implementation],
    seed: int,
    start: Callable[[Implementation], Worker],
    turns: Callable[..., dict[str, Timing]],
) -> Found:
    """Each implementation in a process of its own, all at the same time, and their steps in turn."""
    found = Found()
    workers: dict[str, Worker] = {}
    with ExitStack() as stack:
        with bar(f"{configuration.name}: comparing numbers", len(variants) + 1) as advance:
            expected = Expected(configuration, seed)
            advance(1)
            for name, implementation in variants.items():
                try:
                    worker = stack.enter_context(start(implementation))
                    found.agreements[name] = expected.agreement(worker)
                    found.versions |= worker.call("versions")
                    workers[name] = worker
                except WorkerError as error:
                    found.notes.append(f"{configuration.name}: {name} not measured, {' '.join(str(error).split())}")
                advance(1)
        for name, reason in refused(found.agreements, expected.loss).items():
            found.notes.append(f"{configuration.name}: {name} not measured, {reason}")
            workers.pop(name).close()
        steps = {name: partial(_seconds, name, worker) for name, worker in workers.items()}
        found.timings = turns(steps, title=configuration.name)
        found.memory = {name: (one.peak_memory(), one.call("device_memory")) for name, one in workers.items()}
    return found


def _seconds(name: str, worker: Worker) -> float:
    try:
        seconds, _ = worker.call("step")
    except WorkerError as error:
        raise UsageError(f"{name} failed while it was measured: {error}") from error
    return float(seconds)


def _result(found: Mapping[str, Found], variants: Mapping[str, Implementation], notes: list[str]) -> dict[str, Any]:
    counterparts: dict[tuple[str, str], str] = {}  # the first of those measured that the paper has
    for configuration, one in found.items():
        for name in one.timings:
            if (counterpart := variants[name].published) is not None:
                counterparts.setdefault((configuration, counterpart), name)
    seconds = {at: found[at[0]].timings[name].median for at, name in counterparts.items()}
    versions = {package: version for one in found.values() for package, version in one.versions.items()}
    told = ", ".join(f"{package} {version}" for package, version in versions.items())
    steps = [
        row
        for configuration, one in found.items()
        for row in _rows(configuration, one, {counterparts[at]: at[1] for at in counterparts if at[0] == configuration})
    ]
    return {
        "steps": steps,
        "numbers_and_memory": [row for key, one in found.items() for row in _numbers(key, one)],
        "published": published_rows(seconds, found),
        "notes": [*notes, *(line for one in found.values() for line in one.notes), *_noise(found), f"versions: {told}"],
        "plots": [_plot(found, variants)],
    }


def _rows(configuration: str, found: Found, counterparts: Mapping[str, str]) -> list[dict[str, Any]]:
    slowest = max((timing.median for timing in found.timings.values()), default=0.0)
    return [
        {
            "configuration": configuration,
            "implementation": name,
            **timing.row(),
            "x slowest": slowest / timing.median,
            "published": times_faster(configuration, counterparts.get(name)),
        }
        for name, timing in found.timings.items()
    ]


def _numbers(configuration: str, found: Found) -> list[dict[str, Any]]:
    return [
        {
            "configuration": configuration,
            "implementation": name,
            "logits differ": found.agreements[name].logits,
            "loss differs": found.agreements[name].loss,
            "first step takes off": found.agreements[name].lost,
            **_memory(*found.memory[name]),
        }
        for name in found.timings
    ]


def _memory(process: int, gpu: int | None) -> dict[str, float]:
    return {"peak GB": process / 1e9, **({} if gpu is None else {"GPU peak GB": gpu / 1e9})}


def _noise(found: Mapping[str, Found]) -> list[str]:
    return [f"{configuration}: {line}" for configuration, one in found.items() for line in noise(one.timings)]


def _plot(found: Mapping[str, Found], variants: Mapping[str, Implementation]) -> dict[str, Any]:
    """As the paper's bars: a group a configuration."""
    series = {
        name: {key: 1000 * one.timings[name].median for key, one in found.items() if name in one.timings}
        for name in variants
    }
    drawn = {name: values for name, values in series.items() if values}
    return plot("Training step of LSTM networks", "bars", "configuration", "ms a batch", drawn, log=True)
