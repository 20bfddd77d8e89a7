"""Toolkits at the framewise experiment of papers/002 §6, and independent workers whose weights are averaged (§4.1)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from omegaconf import DictConfig, OmegaConf

from asr_ablations.tools.errors import choices
from asr_benchmarks.published import published
from asr_benchmarks.timing import Timing, check, in_turn, noise
from asr_benchmarks.toolkit.averaged import averaged_workers
from asr_benchmarks.toolkit.frames import Settings, generate
from asr_benchmarks.worker import Worker, missing

WARMUP = 1
"""Epochs of each that are trained and not timed: the first compiles, allocates and reads the files."""


def toolkit_speed(
    cfg: DictConfig,
    *,
    engines: dict[str, Any],
    worker: Any,
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
) -> Iterator[dict[str, Any]]:
    """Seconds an epoch, memory and frame error rate of each engine, and then those with `worker` in 1, 2, … processes.
    shared: the fields of Settings but seed and device.
    """
    from asr_ablations.training.assembly import device_count

    check(utterances=utterances, frames=frames, epochs=epochs, worker_epochs=worker_epochs)
    check(worker_threads=worker_threads)
    _check(noise, held_out, workers, every, shared)
    settings = Settings(**shared, seed=cfg.seed, device="cuda" if device_count(cfg) else "cpu")
    absent = {name: lost for name, make in engines.items() if (lost := missing(getattr(make.func, "requires", ())))}
    counts, few = _possible(workers, settings.device)
    missed = [
        f"{name} left out, without {', '.join(lost)}: pip install 'asr-ablations[benchmarks]'"
        for name, lost in absent.items()
    ]
    notes = [*missed, *few, *_choices(settings, utterances, frames, noise, held_out, worker_threads)]
    with TemporaryDirectory() as folder:
        generate(Path(folder), settings, utterances=utterances, frames=frames, noise=noise, held_out=held_out)
        make = partial(_made, folder, settings)
        found = _engines(
            {name: make(engine, cfg) for name, engine in engines.items() if name not in absent},
            threads=cfg.threads,
            epochs=epochs,
            utterances=utterances,
        )
        notes += found.pop("notes")
        yield {**found, "notes": notes}
        if counts:
            options: dict[str, Any] = {"every": every, "threads": worker_threads}
            options |= {"epochs": worker_epochs, "warmup": WARMUP}
            averaged = averaged_workers(cfg, partial(make, worker), counts=counts, **options)
            yield {**found, **averaged, "notes": [*notes, *averaged["notes"]]}


def _made(folder: str, settings: Settings, engine: Any, cfg: DictConfig) -> Callable[[], Any]:
    return partial(engine, folder, settings, OmegaConf.to_yaml(cfg, resolve=True))


def _check(noise: Any, held_out: Any, workers: Any, every: Any, shared: Mapping[str, Any]) -> None:
    """Raises UsageError for a value that makes no world, network or step."""
    check(**{key: shared[key] for key in ("features", "labels", "chunk", "layers", "width", "batch")})
    numbers = {"noise": noise, "held_out": held_out, **{key: shared[key] for key in ("lr", "momentum")}}
    for key, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0 or (key == "lr" and value == 0):
            raise choices(f"benchmark.{key}", value, "a number, above 0" if key == "lr" else "a number, 0 or more")
    if not _counts(workers):
        raise choices("benchmark.workers", workers, "whole numbers, 1 or more, or [] for none")
    if not every or not _counts([span for span in every if span is not None]):
        raise choices("benchmark.every", every, "a list of whole numbers, 1 or more, null for once an epoch")


def _counts(values: list[Any]) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) and value >= 1 for value in values)


def _possible(workers: list[int], device: str) -> tuple[list[int], list[str]]:
    """The numbers of workers that this machine can have, each on a GPU of its own, and a note of the others."""
    import torch

    there = torch.cuda.device_count()
    few = [count for count in workers if device == "cuda" and count > there]
    notes = [f"{', '.join(map(str, few))} workers left out: a GPU each, and this machine has {there}"] if few else []
    return [count for count in workers if count not in few], notes


def _engines(made: Mapping[str, Any], *, threads: int | None, epochs: int, utterances: int) -> dict[str, Any]:
    with ExitStack() as stack:
        running = {name: stack.enter_context(Worker(make, threads, children=True)) for name, make in made.items()}
        seen: dict[str, list[dict[str, float]]] = {name: [] for name in running}
        turns = {name: partial(_epoch, engine, seen[name]) for name, engine in running.items()}
        timings = in_turn(turns, steps=epochs, warmup=WARMUP, title="epochs of the toolkits")
        rows = [_row(name, running[name], timings[name], seen[name], utterances) for name in running]
        versions = {engine.call("about")["version"]: None for engine in running.values()}
    theirs = [
        {
            **dict.fromkeys(rows[0]),
            "toolkit": f"{name}, 2016",
            "published s": told["seconds"],
            "published GB": told["gigabytes"],
        }
        for name, told in published("toolkit")["toolkits"].items()
    ]
    notes = [f"versions: {', '.join(versions)}", *noise(timings)]
    return {"toolkits": [*rows, *theirs], "learning": [_learnt(*one) for one in seen.items()], "notes": notes}


def _epoch(engine: Worker, seen: list[dict[str, float]]) -> float:
    seen.append(engine.call("epoch"))
    return seen[-1]["seconds"]


def _row(name: str, engine: Worker, timing: Timing, seen: list[dict[str, float]], utterances: int) -> dict[str, Any]:
    rate = engine.call("error_rate")
    memory = engine.call("about")["memory"] or engine.peak_memory()
    paper = published("toolkit")["utterances"]
    return {
        "toolkit": name,
        "s an epoch": timing.median,
        "spread %": timing.spread,
        "frames/s": seen[-1]["frames"] / timing.median,
        "peak GB": memory / 1e9,
        "FER %": float(rate),
        f"s for {paper} utterances": timing.median * paper / utterances,
        "published s": None,
        "published GB": None,
    }


def _learnt(name: str, seen: list[dict[str, float]]) -> dict[str, Any]:
    """That it trained, on as many frames as the others: losses of the first epoch and of the last in nats a frame."""
    first, last = seen[0], seen[-1]
    told = {"toolkit": name, "epochs": len(seen), "frames an epoch": int(last["frames"])}
    return {**told, "first loss": float(first["loss"]), "last loss": float(last["loss"])}


def _choices(
    settings: Settings, utterances: int, frames: int, noise: float, held_out: float, threads: int
) -> list[str]:
    """What the paper does not tell, and what stands here for it."""
    own = f"{settings.layers} layers of {settings.width}, batches of {settings.batch} chunks of {settings.chunk} frames"
    return [
        f"papers/002 tells neither width nor batch nor learning rate: {own}, SGD lr {settings.lr:g}, momentum "
        f"{settings.momentum:g}, float32 unless an engine says otherwise, the same first weights everywhere",
        f"{utterances} utterances of {frames} frames of 10 ms (CHiME's 8,738 are about 18 hours, 7.4 s each; here "
        f"whole chunks), {100 * held_out:g} % of them held out, as the paper's rates are of 10 %",
        f"synthetic: {settings.labels} labels of five frames in the mean, a frame is its label's random point in "
        f"{settings.features} dimensions and noise of deviation {noise:g}; rates compare with one another alone",
        "2016 and published: papers/002 table 1 and §6, GeForce GTX 980, Theano with own kernels, a GPU a worker; here "
        f"each worker has {threads} thread(s) or a GPU",
        "memory: what the process held at most, libraries and mapped files included; on a GPU what torch reserved",
    ]
