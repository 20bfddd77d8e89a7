"""Measure how training scales with ranks, for a fixed batch per rank (weak) or a fixed total batch (strong)."""

import copy
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.batch import Batch
from asr_ablations.experiment.run import set_up
from asr_ablations.tools.checks import is_whole
from asr_ablations.tools.machine import cores, device_clock, peak_memory
from asr_ablations.training.assembly import device_count, trainer
from asr_ablations.training.lightning_warnings import silence_lightning
from asr_benchmarks.plots import Plot, plot
from asr_benchmarks.tables import Result, Row, fill_row, published
from asr_benchmarks.timing import Timing, check_counts, in_turn, noise_notes
from asr_benchmarks.worker import Group, WorkerError
from asr_verdicts.errors import UsageError, choices

COLUMNS = (
    "scaling | ranks | batch per rank | total batch | ms per step | R | efficiency % | utterances per step | "
    "peak MiB per rank"
)
PUBLISHED = "source (published) | setting | GPUs | epoch, as printed | speed-up | efficiency %"


@dataclass
class Point:
    """Measurements for one number of ranks and one batch size per rank. failed: message of the first failure."""

    ranks: int
    batch: int
    config: str
    options: Mapping[str, int]
    measurements: list[dict[str, float]] = field(default_factory=list)
    failed: str | None = None

    def measure(self) -> float:
        """Train a few steps in new processes. Return the mean seconds per step, or NaN if training has failed."""
        if self.failed is None:
            make = partial(RankSteps, self.config, **self.options)
            try:
                with Group(make, self.ranks, self.options["threads"], ranks=True) as group:
                    self.measurements.append(group.call("measure")[0])
                return self.measurements[-1]["seconds"]
            except WorkerError as error:
                self.failed = str(error)
        return float("nan")

    def median(self, key: str) -> float | None:
        """Return the median of the value `key` over all measurements, or None if a measurement has failed."""
        return None if self.failed is not None else statistics.median(row[key] for row in self.measurements)


def scaling(
    cfg: DictConfig,
    *,
    ranks: Sequence[int] | None,
    batch: int,
    total: int,
    steps: int,
    warmup: int,
    repeats: int,
    threads: int,
) -> Result:
    """Measure weak and strong scaling. The efficiency is R(n) / (n R(1)), where R is hours of audio per second."""
    check_counts(batch=batch, total=total, steps=steps, repeats=repeats, threads=threads)
    if not is_whole(warmup, 1):
        raise choices("benchmark.warmup", warmup, "a whole number, 1 or more, because the first step is slow")
    gpus = 0 if cfg.gpus == 0 else torch.cuda.device_count()
    counts = choose_counts(cfg, ranks, gpus)
    if any(total % count for count in counts):
        shared = ", ".join(map(str, counts))
        raise choices("benchmark.total", total, f"a multiple of each number of ranks, {shared}")
    largest = max(total, batch * counts[-1])
    if (utterances := len(set_up(cfg).data.sets["train"])) < largest:
        raise choices("benchmark.batch and total", largest, f"at most the {utterances} training utterances per step")
    cases = [("weak", n, batch) for n in counts] + [("strong", n, total // n) for n in counts]
    options = {"warmup": warmup, "steps": steps, "threads": threads}
    points = {(n, size): Point(n, size, _write_config(cfg, n, size, bool(gpus)), options) for _, n, size in cases}
    calls = {f"{n} x {size}": point.measure for (n, size), point in points.items()}
    timings = in_turn(calls, steps=repeats, warmup=0, title="training steps")
    if all(reasons := [point.failed for point in points.values()]):
        raise UsageError(f"training failed with every number of ranks: {reasons[0]}")
    rows = [build_row(kind, points[n, size], points[1, size if kind == "weak" else total]) for kind, n, size in cases]
    return Result(
        tables={"scaling": rows, "published": list_published()},
        notes=explain_rows(list(points.values()), timings, gpus, threads),
        plots=draw_plots(rows),
    )


def choose_counts(cfg: DictConfig, ranks: Sequence[int] | None, gpus: int) -> list[int]:
    """Return the numbers of ranks to measure. None means powers of 2 up to the key `ranks`, all GPUs or all cores."""
    if ranks is None:
        largest = cfg.ranks or gpus or cores()
        ranks = [1 << power for power in range(largest.bit_length())]
    different = len(set(ranks)) == len(ranks)
    if 1 not in ranks or not different or not all(is_whole(n, 1) for n in ranks):
        raise choices("benchmark.ranks", list(ranks), "different whole numbers, including 1")
    if gpus and max(ranks) > gpus:
        raise choices("benchmark.ranks", list(ranks), f"at most the {gpus} GPUs of this machine, or gpus=0")
    return sorted(ranks)


def _write_config(cfg: DictConfig, ranks: int, batch: int, gpus: bool) -> str:
    point = copy.deepcopy(cfg)
    with open_dict(point):
        point.ranks, point.gpus = ranks, "auto" if gpus else 0
        point.batch.size, point.batch.seconds = batch, None
    return OmegaConf.to_yaml(point, resolve=True)


def build_row(kind: str, point: Point, single: Point) -> Row:
    """Build a point's row, with None if training failed. kind: weak or strong. single: the point with one rank."""
    seconds, rate, base, peak = point.median("seconds"), point.median("R"), single.median("R"), point.median("peak")
    gain = None if rate is None or base is None else rate / base
    efficiency = None if gain is None else 100 * gain / point.ranks
    place = (kind, point.ranks, point.batch, point.ranks * point.batch)
    speeds = (None if seconds is None else 1000 * seconds, rate, efficiency)
    # the row has the mean number of utterances per step, because an epoch's last batch may be smaller
    return fill_row(COLUMNS, *place, *speeds, point.median("utterances"), None if peak is None else peak / 2**20)


def list_published() -> list[Row]:
    """List published times per epoch by number of GPUs, with speed-up and efficiency."""
    rows = []
    for experiment in published("scaling"):
        for count, time in experiment["epoch"].items():
            gain = None if time is None else experiment["epoch"][1] / time
            efficiency = None if gain is None else 100 * gain / count
            place = (experiment["source"], experiment["setting"], count, time)
            rows.append(fill_row(PUBLISHED, *place, gain, efficiency))
    return rows


def explain_rows(points: Sequence[Point], timings: Mapping[str, Timing], gpus: int, threads: int) -> list[str]:
    """Return notes about the backend, threads, other work on the machine, failures, noise and published times."""
    backend = "GPUs, NCCL" if gpus else "processes on the CPU, gloo"
    lines = [f"ranks are {backend}; threads per rank: {threads}; R: hours of training audio per second, all ranks"]
    largest = max(point.ranks for point in points)
    if not gpus and largest * threads > cores():
        lines.append(f"{largest} ranks of {threads} threads share {cores()} cores; more ranks than cores gain nothing")
    if (load := os.getloadavg()[0]) > cores() + largest * threads:
        lines.append(f"other work is running on the machine: {load:.1f} processes compete for {cores()} cores")
    lines += [f"{p.ranks} ranks, batch {p.batch} per rank, failed: {p.failed}" for p in points if p.failed is not None]
    lines += noise_notes({name: timing for name, timing in timings.items() if not math.isnan(timing.median)})
    unclear = "which is unlikely (960 h in 119 s), and no times in full precision (???)"
    return [*lines, f"published: Ambroszczyk2019 §2.5 gives epochs in seconds, {unclear}"]


def draw_plots(rows: Sequence[Row]) -> list[Plot]:
    """Plot efficiency and throughput by number of ranks, and the published efficiency."""
    lines: dict[str, dict[str, dict[int, float | None]]] = {"efficiency %": {}, "R": {}}
    for column, by_name in lines.items():
        for kind in ("weak", "strong"):
            by_name[kind] = {row["ranks"]: row[column] for row in rows if row["scaling"] == kind}
    for row in list_published():
        if row["efficiency %"] is not None:
            name = f"published, {row['source (published)']}"
            lines["efficiency %"].setdefault(name, {})[row["GPUs"]] = row["efficiency %"]
    return [
        plot("Efficiency by ranks", "lines", "ranks", "R(n) / n R(1) in %", lines["efficiency %"]),
        plot("Throughput by ranks", "lines", "ranks", "hours of audio per second", lines["R"]),
    ]


class RankSteps:
    """Times the training steps of one rank. config: the training's config as YAML."""

    def __init__(self, config: str, *, warmup: int, steps: int, threads: int) -> None:
        silence_lightning()
        self.cfg: Any = OmegaConf.create(config)
        self.cfg.threads, self.warmup, self.steps = threads, warmup, steps

    def measure(self) -> dict[str, float]:
        """Train, and return seconds and utterances per step, hours of audio per second (R), and peak memory (bytes)."""
        _, task, data = set_up(self.cfg)
        clock = StepClock(self.warmup, self.steps)
        limits: Any = {"max_epochs": -1, "max_steps": self.warmup + self.steps, "limit_val_batches": 0}
        fitter = trainer(self.cfg, device_count(self.cfg), [], [clock], **limits)
        fitter.fit(task, data)
        seconds = clock.ended - clock.started
        hours, utterances = float(clock.audio[0]) / SAMPLE_RATE / 3600, float(clock.audio[1])
        on_gpu = fitter.strategy.root_device.type == "cuda"
        peak = torch.cuda.max_memory_reserved() if on_gpu else peak_memory()
        each = {"seconds": seconds / self.steps, "utterances": utterances / self.steps}
        return {**each, "R": hours / seconds, "peak": peak}


class StepClock(pl.Callback):
    """Times `steps` steps after a warm-up. It waits for the device only before the first and after the last of them."""

    def __init__(self, warmup: int, steps: int) -> None:
        self.warmup, self.steps = warmup, steps
        self.started = self.ended = 0.0
        self.audio = torch.zeros(2, dtype=torch.float64)  # samples and utterances of this rank

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: Batch, batch_idx: int
    ) -> None:
        # all ranks have the same times, because averaging the gradients synchronises them
        if trainer.global_step == self.warmup:
            self.started = device_clock(pl_module.device)
        if trainer.global_step == self.warmup + self.steps:
            self.ended = device_clock(pl_module.device)
        if trainer.global_step > self.warmup:
            self.audio += torch.tensor([float(batch.lengths.sum()), len(batch.ids)], dtype=torch.float64)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.world_size > 1:
            self.audio = trainer.strategy.reduce(self.audio.to(pl_module.device), reduce_op="sum").cpu()
