"""Training steps of LSTM networks in several frameworks, with equal weights, in turn (Braun2018 §3)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from omegaconf import DictConfig

from asr_benchmarks.lstm.agreement import Agreement, Expected, refused
from asr_benchmarks.lstm.configuration import Configuration, Implementation, choose
from asr_benchmarks.lstm.published import rows as published_rows
from asr_benchmarks.lstm.published import times_faster
from asr_benchmarks.plots import Plot, plot
from asr_benchmarks.tables import Result, Row
from asr_benchmarks.timing import Timing, check_counts, in_turn, noise_notes
from asr_benchmarks.worker import Worker, WorkerError, missing
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.terminal import bar

NOT_CUDNN = "on a CPU nn.LSTM is torch's own loop; the paper's PyTorch cuDNNLSTM, beside which it stands, ran on a GPU"


def lstm_speed(
    cfg: DictConfig,
    *,
    networks: Mapping[str, Mapping[str, object]],
    configurations: list[str],
    implementations: Mapping[str, Implementation],
    only: list[str] | None,
    scale: float,
    steps: int,
    warmup: int,
    budget: float | None,
    threads: int | None,
) -> Iterator[Result]:
    """Yields, after each configuration, what has been measured so far.

    In `steps`: the milliseconds of a training step (batch to the device, forwards, backwards, Adam) of each
    configuration and implementation, and how many times faster than the configuration's slowest it is, here and in the
    paper. In `numbers_and_memory`: how far its logits and its loss are from the reference's, by how much its first step
    lowers the loss, and the memory of its process. In `published`: the paper's ratios, with ours beside them. A note
    names an implementation that computes other numbers; it is not measured.
    """
    check_counts(steps=steps, warmup=warmup, **({} if threads is None else {"threads": threads}))
    turns = partial(in_turn, steps=steps, warmup=warmup, budget=budget)
    turns({})  # raises for a wrong budget before anything starts
    chosen = choose(networks, configurations, scale)
    variants, notes = _installed(_only(implementations, only))
    device = _device(cfg)
    if scale != 1:
        notes.append(f"sizes are the paper's times {scale:g}; its ratios are those of the full sizes")
    if device == "cpu" and "torch_lstm" in variants:
        notes.append(NOT_CUDNN)
    measured: dict[str, Measured] = {}
    for configuration in chosen:
        start = partial(
            Implementation.start, configuration=configuration, seed=cfg.seed, device=device, threads=threads
        )
        measured[configuration.name] = _measure(configuration, variants, cfg.seed, start, turns)
        yield _result(device, measured, variants, notes)


def _only(implementations: Mapping[str, Implementation], only: list[str] | None) -> dict[str, Implementation]:
    if only is None:
        return dict(implementations)
    if not only or not all(name in implementations for name in only):
        raise choices("benchmark.only", only, f"null for all, or a list of some: {', '.join(implementations)}")
    return {name: implementation for name, implementation in implementations.items() if name in only}


def _installed(variants: Mapping[str, Implementation]) -> tuple[dict[str, Implementation], list[str]]:
    """The implementations whose packages are installed, and a note for each other."""
    absent = {name: missing(implementation.packages) for name, implementation in variants.items()}
    notes = [
        f"{name}: not measured, {' and '.join(packages)} not installed; pip install '.[benchmarks]'"
        for name, packages in absent.items()
        if packages
    ]
    return {name: implementation for name, implementation in variants.items() if not absent[name]}, notes


def _device(cfg: DictConfig) -> str:
    from asr_ablations.training.assembly import device_count

    return "cuda" if device_count(cfg) else "cpu"


@dataclass
class Measured:
    """The measurements of one configuration, by implementation. memory: bytes of the process and of the GPU."""

    timings: dict[str, Timing] = field(default_factory=dict)
    agreements: dict[str, Agreement] = field(default_factory=dict)
    memory: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def _measure(
    configuration: Configuration,
    variants: Mapping[str, Implementation],
    seed: int,
    start: Callable[[Implementation], Worker],
    turns: Callable[..., dict[str, Timing]],
) -> Measured:
    """Start each implementation in a process of its own, all at the same time, and time their steps in turn."""
    measured = Measured()
    workers: dict[str, Worker] = {}
    with ExitStack() as stack:
        with bar(f"{configuration.name}: comparing numbers", len(variants) + 1) as advance:
            expected = Expected(configuration, seed)
            advance(1)
            for name, implementation in variants.items():
                try:
                    worker = stack.enter_context(start(implementation))
                    measured.agreements[name] = expected.agreement(worker)
                    measured.versions |= worker.call("versions")
                    workers[name] = worker
                except WorkerError as error:
                    measured.notes.append(f"{configuration.name}: {name} not measured, {' '.join(str(error).split())}")
                advance(1)
        for name, reason in refused(measured.agreements, expected.loss).items():
            measured.notes.append(f"{configuration.name}: {name} not measured, {reason}")
            workers.pop(name).close()
        steps = {name: partial(_seconds, name, worker) for name, worker in workers.items()}
        measured.timings = turns(steps, title=configuration.name)
        measured.memory = {
            name: (worker.peak_memory(), worker.call("device_memory")) for name, worker in workers.items()
        }
    return measured


def _seconds(name: str, worker: Worker) -> float:
    try:
        seconds, _ = worker.call("step")
    except WorkerError as error:
        raise UsageError(f"{name} failed while it was measured: {error}") from error
    return float(seconds)


def _result(
    device: str, measured: Mapping[str, Measured], variants: Mapping[str, Implementation], notes: Sequence[str]
) -> Result:
    counterparts = _counterparts(measured, variants)
    seconds = {point: measured[point[0]].timings[name].median for point, name in counterparts.items()}
    versions = {package: version for own in measured.values() for package, version in own.versions.items()}
    listed = ", ".join(f"{package} {version}" for package, version in versions.items())
    published_names = {(configuration, name): published for (configuration, published), name in counterparts.items()}
    steps = [row for key, own in measured.items() for row in _rows(key, own, published_names)]
    own_notes = [line for own in measured.values() for line in own.notes]
    return Result(
        figures={"device": device},
        tables={
            "steps": steps,
            "numbers_and_memory": [row for key, own in measured.items() for row in _numbers(key, own)],
            "published": published_rows(seconds, measured),
        },
        notes=[*notes, *own_notes, *_noise(measured), f"versions: {listed}"],
        plots=[_plot(measured, variants)],
        relative={"steps": ["ms"]},
    )


def _counterparts(
    measured: Mapping[str, Measured], variants: Mapping[str, Implementation]
) -> dict[tuple[str, str], str]:
    """The first measured implementation by configuration and by the name that the paper has for it."""
    counterparts: dict[tuple[str, str], str] = {}
    for configuration, own in measured.items():
        for name in own.timings:
            if (published := variants[name].published) is not None:
                counterparts.setdefault((configuration, published), name)
    return counterparts


def _rows(configuration: str, own: Measured, published_names: Mapping[tuple[str, str], str]) -> list[Row]:
    slowest = max((timing.median for timing in own.timings.values()), default=0.0)
    return [
        {
            "configuration": configuration,
            "implementation": name,
            **timing.row(),
            "x slowest": slowest / timing.median,
            "published": times_faster(configuration, published_names.get((configuration, name))),
        }
        for name, timing in own.timings.items()
    ]


def _numbers(configuration: str, own: Measured) -> list[Row]:
    return [
        {
            "configuration": configuration,
            "implementation": name,
            "logits differ": own.agreements[name].logits,
            "loss differs": own.agreements[name].loss,
            "first step lowers loss by": own.agreements[name].decrease,
            **_memory(*own.memory[name]),
        }
        for name in own.timings
    ]


def _memory(process: int, gpu: int | None) -> dict[str, float]:
    return {"peak GB": process / 1e9, **({} if gpu is None else {"GPU peak GB": gpu / 1e9})}


def _noise(measured: Mapping[str, Measured]) -> list[str]:
    return [f"{configuration}: {line}" for configuration, own in measured.items() for line in noise_notes(own.timings)]


def _plot(measured: Mapping[str, Measured], variants: Mapping[str, Implementation]) -> Plot:
    """The paper's bars: a group for each configuration."""
    series = {
        name: {key: 1000 * own.timings[name].median for key, own in measured.items() if name in own.timings}
        for name in variants
    }
    drawn = {name: values for name, values in series.items() if values}
    return plot("Training step of LSTM networks", "bars", "configuration", "ms per batch", drawn, log=True)
