"""Independent workers whose weights are averaged now and then (papers/002 §4.1): by how many, and how often."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from omegaconf import DictConfig, OmegaConf

from asr_benchmarks.plots import plot
from asr_benchmarks.published import published
from asr_benchmarks.timing import in_turn, noise
from asr_benchmarks.toolkit.ranks import Ranks

LOCAL_SGD = "asr_ablations.components.trainer.local_sgd.LocalSGD"

SOURCE = "papers/002 §6"
"""Of the published times beside them, in published/scaling.yaml."""

Make = Callable[[DictConfig], Callable[[], Any]]
Curve = list[tuple[float, float]]
"""Seconds of training and the frame error rate in %, after each epoch."""


def averaged_workers(
    cfg: DictConfig, make: Make, *, counts: list[int], every: list[int | None], threads: int, epochs: int, warmup: int
) -> dict[str, Any]:
    """A row for each number of workers and each way to average, and the frame error rate of each over time. make: from
    a config to what a process makes.
    """
    ways = _ways(counts, every)
    with ExitStack() as stack:
        groups = {
            name: stack.enter_context(Ranks(make(_with_averaging(cfg, span)), count, threads))
            for name, (count, span) in ways.items()
        }
        curves: dict[str, Curve] = {name: [] for name in groups}
        turns = {name: partial(_epoch, group, curves[name]) for name, group in groups.items()}
        timings = in_turn(turns, steps=epochs, warmup=warmup, title="epochs of the workers")
    seconds = {name: timing.median for name, timing in timings.items()}
    rows = [
        {**_row(ways[name], curves[name], seconds[name], seconds.get("1 worker")), "spread %": timing.spread}
        for name, timing in timings.items()
    ]
    series: Mapping[str, Any] = {name: dict(curve) for name, curve in curves.items()}
    drawn = plot("Frame error rate over time", "lines", "seconds of training", "frame error rate, %", series)
    return {"workers": rows, "plots": [drawn], "notes": noise(timings)}


def _ways(counts: list[int], every: list[int | None]) -> dict[str, tuple[int, int | None]]:
    """Workers and steps between two averagings, None for once an epoch; one worker has nothing to average."""
    pairs = [(count, span) for count in counts for span in (every if count > 1 else [None])]
    return {_name(count, span): (count, span) for count, span in pairs}


def _name(count: int, every: int | None) -> str:
    return f"{count} worker{'s' if count > 1 else ''}{f', every {every} steps' if every else ''}"


def _with_averaging(cfg: DictConfig, every: int | None) -> DictConfig:
    made: Any = OmegaConf.create(OmegaConf.to_container(cfg, resolve=True))
    made.trainer = {"_target_": LOCAL_SGD, "every": every}
    assert isinstance(made, DictConfig)
    return made


def _row(way: tuple[int, int | None], curve: Curve, seconds: float, alone: float | None) -> dict[str, Any]:
    count, every = way
    (theirs,) = (told["epoch"] for told in published("scaling") if told["source"] == SOURCE)
    epoch = theirs.get(count) if every is None else None
    return {
        "workers": count,
        "averaged": "never" if count == 1 else "once an epoch" if every is None else f"every {every} steps",
        "epochs": len(curve),
        "s an epoch": seconds,
        "speed-up": alone / seconds if alone else None,
        "FER %": curve[-1][1],
        "smallest FER %": min(rate for _, rate in curve),
        "published s": epoch,
        "published speed-up": theirs[1] / epoch if epoch else None,
    }


def _epoch(group: Ranks, curve: Curve) -> float:
    seconds = group.epoch()["seconds"]
    curve.append(((curve[-1][0] if curve else 0.0) + seconds, group.error_rate()))
    return seconds
