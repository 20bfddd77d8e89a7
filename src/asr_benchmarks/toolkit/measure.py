"""Compare toolkits in the framewise experiment of Doetsch2016 §6, and workers that average their weights (§4.1)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from asr_ablations.tools.checks import is_whole, number
from asr_ablations.training.assembly import device_count
from asr_benchmarks.plots import plot
from asr_benchmarks.tables import Result, Row, fill_row, published
from asr_benchmarks.timing import check_counts, in_turn, noise_notes
from asr_benchmarks.toolkit.network import Settings, generate
from asr_benchmarks.worker import Group, Implementation, choose_runnable, make_trainer, measure_in_turn, run_workers
from asr_verdicts.errors import UsageError, choices

TOOLKIT = "toolkit | s per epoch | spread % | frames/s | peak GB | FER %"

LEARNING = "toolkit | epochs | frames per epoch | first loss | last loss"

WARMUP = 1
"""Number of initial epochs that are not timed, because they include compilation, memory allocation and file reads."""


def toolkit_speed(
    cfg: DictConfig,
    *,
    engines: Mapping[str, Implementation],
    worker: Implementation,
    utterances: int,
    frames: int,
    noise: float,
    held_out: float,
    epochs: int,
    workers: list[int],
    every: list[int | None],
    worker_epochs: int,
    worker_threads: int,
    **shared: Any,
) -> Iterator[Result]:
    """Yield the result of all engines, then that result plus the workers' measurements. shared: fields of Settings."""
    sizes = {key: shared[key] for key in ("features", "labels", "chunk", "layers", "width", "batch")}
    check_counts(utterances=utterances, frames=frames, epochs=epochs, worker_epochs=worker_epochs, **sizes)
    check_counts(worker_threads=worker_threads)
    if workers:
        check_counts(workers=workers)
    number("benchmark.lr", shared["lr"], above=0)
    for key, value in {"noise": noise, "held_out": held_out, "momentum": shared["momentum"]}.items():
        number(f"benchmark.{key}", value, least=0)
    if not every or not all(span is None or is_whole(span, 1) for span in every):
        raise choices("benchmark.every", every, "a list of whole numbers, 1 or more, null for once per epoch")
    on_gpu, gpus = device_count(cfg) > 0, torch.cuda.device_count()
    settings = Settings(**shared, seed=cfg.seed, device="cuda" if on_gpu else "cpu")
    runnable, notes = choose_runnable(engines, "gpu" if on_gpu else "cpu")
    counts = [count for count in workers if not on_gpu or count <= gpus]
    if many := [count for count in workers if count not in counts]:
        listed = ", ".join(map(str, many))
        notes.append(f"{listed} workers left out: each needs a GPU, but this machine has only {gpus}")
    notes += _explain_choices(settings, utterances, frames, noise, held_out, worker_threads)
    with TemporaryDirectory() as folder:
        generate(Path(folder), settings, utterances=utterances, frames=frames, noise=noise, held_out=held_out)
        trained = _compare_engines(runnable, (folder, settings, OmegaConf.to_yaml(cfg, resolve=True)), cfg, epochs)
        notes += trained.notes
        yield Result(tables=trained.tables, notes=list(notes))
        if counts:
            make = partial(make_trainer, worker.trainer, folder, settings, **worker.model)
            averaged = average_workers(cfg, make, counts, every, worker_threads, worker_epochs)
            tables = {**trained.tables, **averaged.tables}
            yield Result(tables=tables, notes=[*notes, *averaged.notes], plots=averaged.plots)


def _compare_engines(
    engines: Mapping[str, Implementation], arguments: tuple[str, Settings, str], cfg: DictConfig, epochs: int
) -> Result:
    """Train all engines alternately, each in its own process, and list their times next to the published ones."""
    device = "cpu" if arguments[1].device == "cpu" else "gpu"
    starts = {
        name: partial(engine.start, *arguments, device=device, threads=cfg.threads, keys={})
        for name, engine in engines.items()
    }
    notes: list[str] = []
    with run_workers(starts, lambda name, worker: None, "starting the toolkits", notes) as workers:
        if not workers:
            raise UsageError(f"no toolkit could start: {'; '.join(notes)}")
        measured = measure_in_turn(workers, steps=epochs, warmup=WARMUP, title="epochs of the toolkits")
        errors = {name: worker.call("error_rate") for name, worker in workers.items()}
    printed = published("toolkit")
    columns = f"{TOOLKIT} | s for {printed['utterances']} utterances | published s | published GB"
    scale = printed["utterances"] / cfg.benchmark.utterances
    rows: list[Row] = []
    learning: list[Row] = []
    versions: dict[str, str] = {}
    for name, (timing, steps, memory, device_memory, packages) in measured.items():
        memory = device_memory or memory
        rates = (timing.spread, steps[-1].frames / timing.median, memory / 1e9, errors[name], timing.median * scale)
        rows.append(fill_row(columns, name, timing.median, *rates, None, None))
        # this table shows that every engine learns, and trains on as many frames as the others
        learning.append(fill_row(LEARNING, name, len(steps), steps[-1].frames, steps[0].loss, steps[-1].loss))
        versions |= packages
    nothing = [None] * 6
    for name, figures in printed["toolkits"].items():
        rows.append(fill_row(columns, f"{name}, 2016", *nothing, figures["seconds"], figures["gigabytes"]))
    listed = ", ".join(f"{package} {version}" for package, version in versions.items())
    noisy = noise_notes({name: result.timing for name, result in measured.items()})
    return Result(tables={"toolkits": rows, "learning": learning}, notes=[*notes, f"versions: {listed}", *noisy])


def _explain_choices(
    settings: Settings, utterances: int, frames: int, noise: float, held_out: float, threads: int
) -> list[str]:
    """Return notes about settings that the paper does not give, the data, the published values and the memory."""
    sizes = (
        f"{settings.layers} layers of {settings.width}, batches of {settings.batch} chunks of {settings.chunk} frames"
    )
    return [
        f"Doetsch2016 §6 gives no width, batch or learning rate; used here: {sizes}, SGD with lr {settings.lr:g} and "
        f"momentum {settings.momentum:g}, float32 unless an engine says otherwise, the same initial weights everywhere",
        f"{utterances} utterances of {frames} frames of 10 ms, {100 * held_out:g} % of them held out; the paper holds "
        "out 10 % of CHiME, which has 8,738 utterances of 7.4 s on average, about 18 hours",
        f"synthetic data: {settings.labels} labels that last five frames on average, each with a random mean in "
        f"{settings.features} dimensions, and noise with sd {noise:g}; compare these error rates only with each other",
        "2016 and published: Doetsch2016 table 1 and §6, GeForce GTX 980, Theano with its own kernels, one GPU per "
        f"worker; here each worker has {threads} thread(s) or a GPU",
        "memory: peak of the process, including libraries and mapped files; on a GPU, the peak that torch reserved",
    ]


LOCAL_SGD = "asr_ablations.components.trainer.local_sgd.LocalSGD"

SOURCE = "Doetsch2016 §6"
"""Source in published/scaling.yaml whose times are listed next to the measured times."""

COLUMNS = (
    "workers | averaged | epochs | s per epoch | speed-up | FER % | smallest FER % | published s | "
    "published speed-up | spread %"
)


def average_workers(
    cfg: DictConfig,
    make: Callable[[str], object],
    counts: list[int],
    every: Sequence[int | None],
    threads: int,
    epochs: int,
) -> Result:
    """Measure each number of workers with each averaging interval. make: builds an engine from a YAML config."""
    ways = list_ways(counts, every)
    curves: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    """Training seconds and frame error rate in % after each epoch, by combination."""
    with ExitStack() as stack:

        def train_epoch(group: Group, curve: list[tuple[float, float]]) -> float:
            seconds = max(step.seconds for step in group.call("step"))  # the time of the slowest rank
            curve.append(((curve[-1][0] if curve else 0.0) + seconds, group.workers[0].call("error_rate")))
            return seconds

        turns = {}
        for name, (count, span) in ways.items():
            text = OmegaConf.to_yaml(set_averaging(cfg, span), resolve=True)
            group = stack.enter_context(Group(partial(make, text), count, threads, ranks=True))
            turns[name] = partial(train_epoch, group, curves[name])
        timings = in_turn(turns, steps=epochs, warmup=WARMUP, title="epochs of the workers")
    (printed,) = (experiment["epoch"] for experiment in published("scaling") if experiment["source"] == SOURCE)
    alone = timings["1 worker"].median if "1 worker" in timings else None
    rows: list[Row] = []
    for name, timing in timings.items():
        count, span = ways[name]
        seconds = printed.get(count) if span is None else None
        averaged = "never" if count == 1 else "once per epoch" if span is None else f"every {span} steps"
        rates = [rate for _, rate in curves[name]]
        speeds = (len(rates), timing.median, alone / timing.median if alone else None, rates[-1], min(rates))
        paper = (seconds, printed[1] / seconds if seconds else None)
        rows.append(fill_row(COLUMNS, count, averaged, *speeds, *paper, timing.spread))
    series = {name: dict(curve) for name, curve in curves.items()}
    drawn = plot("Frame error rate over time", "lines", "seconds of training", "frame error rate, %", series)
    return Result(tables={"workers": rows}, notes=noise_notes(timings), plots=[drawn])


def list_ways(counts: list[int], every: Sequence[int | None]) -> dict[str, tuple[int, int | None]]:
    """Return (workers, steps between averagings) by name. None means once per epoch, as for a single worker."""
    pairs = [(count, span) for count in counts for span in (every if count > 1 else [None])]
    return {
        f"{count} worker{'s' if count > 1 else ''}{f', every {span} steps' if span else ''}": (count, span)
        for count, span in pairs
    }


def set_averaging(cfg: DictConfig, every: int | None) -> DictConfig:
    """Return the config with LocalSGD as its trainer. every: steps between averagings, or None for once per epoch."""
    averaged = OmegaConf.create(OmegaConf.to_container(cfg, resolve=True))
    assert isinstance(averaged, DictConfig)
    averaged.trainer = {"_target_": LOCAL_SGD, "every": every}
    return averaged
