"""Toolkits at the framewise experiment of Doetsch2016 §6, and independent workers whose weights are averaged (§4.1)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from omegaconf import DictConfig, OmegaConf

from asr_ablations.tools.checks import is_number, is_whole
from asr_benchmarks.tables import Result, Row, published
from asr_benchmarks.timing import Timing, check_counts, in_turn, noise_notes
from asr_benchmarks.toolkit.averaged import averaged_workers
from asr_benchmarks.toolkit.network import Engine, Epoch, Settings, generate
from asr_benchmarks.worker import Worker, missing
from asr_verdicts.errors import choices

WARMUP = 1
"""Epochs that each trains without being timed: the first compiles, allocates and reads the files."""


def toolkit_speed(
    cfg: DictConfig,
    *,
    engines: Mapping[str, partial[Engine]],
    worker: partial[Engine],
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
    """Yields seconds per epoch, memory and frame error rate of each engine; then also those of the engine `worker` in
    1, 2, … processes.

    shared: the fields of Settings except seed and device. Raises UsageError for values out of range.
    """
    from asr_ablations.training.assembly import device_count

    check_counts(utterances=utterances, frames=frames, epochs=epochs, worker_epochs=worker_epochs)
    check_counts(worker_threads=worker_threads)
    _check(noise, held_out, workers, every, shared)
    settings = Settings(**shared, seed=cfg.seed, device="cuda" if device_count(cfg) else "cpu")
    installed, absent_notes = runnable(engines, settings.device)
    counts, worker_notes = _possible(workers, settings.device)
    notes = [
        *absent_notes,
        *worker_notes,
        *_choices(settings, utterances, frames, noise, held_out, worker_threads),
    ]
    with TemporaryDirectory() as folder:
        generate(Path(folder), settings, utterances=utterances, frames=frames, noise=noise, held_out=held_out)
        make = partial(_maker, folder, settings)
        makers = {name: make(engine, cfg) for name, engine in installed.items()}
        trained = _engines(makers, threads=cfg.threads, epochs=epochs, utterances=utterances)
        notes += trained.notes
        yield Result(tables=trained.tables, notes=list(notes))
        if counts:
            averaged = averaged_workers(
                cfg,
                partial(make, worker),
                counts=counts,
                every=every,
                threads=worker_threads,
                epochs=worker_epochs,
                warmup=WARMUP,
            )
            tables = {**trained.tables, **averaged.tables}
            yield Result(tables=tables, notes=[*notes, *averaged.notes], plots=averaged.plots)


def _maker(folder: str, settings: Settings, engine: partial[Engine], cfg: DictConfig) -> Callable[[], Engine]:
    return partial(engine, folder, settings, OmegaConf.to_yaml(cfg, resolve=True))


def _check(
    noise: float, held_out: float, workers: list[int], every: list[int | None], shared: Mapping[str, object]
) -> None:
    """Raises UsageError for a value of which no data, network or step can be made."""
    check_counts(**{key: shared[key] for key in ("features", "labels", "chunk", "layers", "width", "batch")})
    if not (is_number(shared["lr"]) and shared["lr"] > 0):
        raise choices("benchmark.lr", shared["lr"], "a number, above 0")
    for key, value in {"noise": noise, "held_out": held_out, "momentum": shared["momentum"]}.items():
        if not (is_number(value) and value >= 0):
            raise choices(f"benchmark.{key}", value, "a number, 0 or more")
    if not all(is_whole(count, 1) for count in workers):
        raise choices("benchmark.workers", workers, "whole numbers, 1 or more, or [] for none")
    if not every or not all(span is None or is_whole(span, 1) for span in every):
        raise choices("benchmark.every", every, "a list of whole numbers, 1 or more, null for once per epoch")


def runnable(engines: Mapping[str, partial[Engine]], device: str) -> tuple[dict[str, partial[Engine]], list[str]]:
    """The engines that this device and these packages can run, and a note for each other."""
    elsewhere = [name for name, engine in engines.items() if device not in getattr(engine.func, "devices", (device,))]
    absent = {name: missing(getattr(engine.func, "requires", ())) for name, engine in engines.items()}
    notes = [f"{name} left out: its packages are TensorFlow's for a CPU" for name in elsewhere]
    notes += [
        f"{name} left out, without {', '.join(packages)}: pip install '.[benchmarks]'"
        for name, packages in absent.items()
        if packages and name not in elsewhere
    ]
    left = {name: engine for name, engine in engines.items() if name not in elsewhere and not absent[name]}
    return left, notes


def _possible(workers: list[int], device: str) -> tuple[list[int], list[str]]:
    """The numbers of workers that this machine can run, each on its own GPU, and a note of the others."""
    import torch

    gpus = torch.cuda.device_count()
    many = [count for count in workers if device == "cuda" and count > gpus]
    listed = ", ".join(map(str, many))
    notes = [f"{listed} workers left out: each needs a GPU, and this machine has {gpus}"] if many else []
    return [count for count in workers if count not in many], notes


def _engines(
    makers: Mapping[str, Callable[[], Engine]], *, threads: int | None, epochs: int, utterances: int
) -> Result:
    """Train all engines in turn, each in a process of its own, and compare them with the published ones."""
    with ExitStack() as stack:
        running = {name: stack.enter_context(Worker(make, threads, children=True)) for name, make in makers.items()}
        trained: dict[str, list[Epoch]] = {name: [] for name in running}
        turns = {name: partial(_epoch, engine, trained[name]) for name, engine in running.items()}
        timings = in_turn(turns, steps=epochs, warmup=WARMUP, title="epochs of the toolkits")
        rows = [_row(name, running[name], timings[name], trained[name], utterances) for name in running]
        versions = {engine.call("about")["version"]: None for engine in running.values()}
    printed = [
        {
            **dict.fromkeys(rows[0]),
            "toolkit": f"{name}, 2016",
            "published s": figures["seconds"],
            "published GB": figures["gigabytes"],
        }
        for name, figures in published("toolkit")["toolkits"].items()
    ]
    learning = [_learning(name, epochs_of) for name, epochs_of in trained.items()]
    notes = [f"versions: {', '.join(versions)}", *noise_notes(timings)]
    return Result(tables={"toolkits": [*rows, *printed], "learning": learning}, notes=notes)


def _epoch(engine: Worker, trained: list[Epoch]) -> float:
    """Train one epoch, append it to `trained`, and return its seconds."""
    trained.append(engine.call("epoch"))
    return trained[-1]["seconds"]


def _row(name: str, engine: Worker, timing: Timing, trained: Sequence[Epoch], utterances: int) -> Row:
    rate = engine.call("error_rate")
    memory = engine.call("about")["memory"] or engine.peak_memory()
    paper = published("toolkit")["utterances"]
    return {
        "toolkit": name,
        "s per epoch": timing.median,
        "spread %": timing.spread,
        "frames/s": trained[-1]["frames"] / timing.median,
        "peak GB": memory / 1e9,
        "FER %": float(rate),
        f"s for {paper} utterances": timing.median * paper / utterances,
        "published s": None,
        "published GB": None,
    }


def _learning(name: str, trained: Sequence[Epoch]) -> Row:
    """Evidence that the engine learnt, on as many frames as the others: losses of the first and of the last epoch in
    nats per frame.
    """
    first, last = trained[0], trained[-1]
    counts = {"toolkit": name, "epochs": len(trained), "frames per epoch": int(last["frames"])}
    return {**counts, "first loss": float(first["loss"]), "last loss": float(last["loss"])}


def _choices(
    settings: Settings, utterances: int, frames: int, noise: float, held_out: float, threads: int
) -> list[str]:
    """List the settings that the paper leaves open, with the values assumed here."""
    own = f"{settings.layers} layers of {settings.width}, batches of {settings.batch} chunks of {settings.chunk} frames"
    return [
        f"Doetsch2016 §6 gives neither width nor batch nor learning rate: {own}, SGD lr {settings.lr:g}, momentum "
        f"{settings.momentum:g}, float32 unless an engine says otherwise, the same first weights everywhere",
        f"{utterances} utterances of {frames} frames of 10 ms (CHiME's 8,738 are about 18 hours, 7.4 s each; here "
        f"whole chunks), {100 * held_out:g} % of them held out, as the paper's rates are of 10 %",
        f"synthetic: {settings.labels} labels of five frames in the mean, a frame is its label's random point in "
        f"{settings.features} dimensions and noise of deviation {noise:g}; compare the rates only with one another",
        "2016 and published: Doetsch2016 table 1 and §6, GeForce GTX 980, Theano with own kernels, one GPU per worker; "
        f"here each worker has {threads} thread(s) or a GPU",
        "memory: the peak of the process, libraries and mapped files included; on a GPU what torch reserved",
    ]
