"""Scaling of training over ranks: with a fixed batch per rank (weak), or a fixed batch of all ranks (strong)."""

import copy
import os
import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from asr_ablations.experiment.run import set_up
from asr_ablations.runs.folder import Run
from asr_ablations.runs.process import LAUNCHER, announce_launcher, child_environment, command
from asr_ablations.tools.checks import is_whole
from asr_ablations.tools.files import read_json
from asr_ablations.tools.machine import cores
from asr_benchmarks.plots import Plot, plot
from asr_benchmarks.tables import Result, published
from asr_benchmarks.timing import Timing, check_counts, in_turn, noise_notes
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import write

SCRIPT = Path(__file__).with_name("rank_steps.py")
ERROR = re.compile(r"[Ee]rror: ")

ScalingRow = TypedDict(
    "ScalingRow",
    {
        "scaling": str,
        "ranks": int,
        "batch per rank": int,
        "total batch": int,
        "ms per step": float | None,
        "R": float | None,
        "efficiency %": float | None,
        "utterances per step": float | None,
        "peak MiB per rank": float | None,
    },
)
"""A number of ranks, weak or strong; None where training failed. R: hours of audio per second, of all ranks."""

PublishedRow = TypedDict(
    "PublishedRow",
    {
        "source (published)": str,
        "setting": str,
        "GPUs": int,
        "epoch, as printed": float | None,
        "speed-up": float | None,
        "efficiency %": float | None,
    },
)


@dataclass
class Point:
    """A number of ranks with a batch per rank: the measurements of its launches, or the reason of the first failure."""

    ranks: int
    batch: int
    config: Path
    threads: int
    measurements: list[dict[str, float]] = field(default_factory=list)
    failed: str | None = None

    @property
    def name(self) -> str:
        return f"{self.ranks} x {self.batch}"

    def __call__(self) -> float:
        """Train a few steps in fresh processes, and return the mean seconds of a step; NaN if that fails."""
        if self.failed is None:
            log, file = self.config.with_suffix(".log"), self.config.with_suffix(".json")
            file.unlink(missing_ok=True)
            if _launch(self.config, self.ranks, self.threads, log) or not file.exists():
                self.failed = failure_reason(log)
            else:
                self.measurements.append(read_json(file))
        return float("nan") if self.failed is not None else self.measurements[-1]["seconds"]

    def median(self, key: str) -> float | None:
        """Median of a measured value over the launches; None if a launch has failed."""
        if self.failed is not None:
            return None
        return statistics.median(measurement[key] for measurement in self.measurements)


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
    """Rows of weak and strong scaling: milliseconds per step, hours of audio per second (R) of all ranks together, and
    the efficiency R(n) / (n R(1)). Frozen configs and the output of the processes lie in `launches` in the run's
    folder.

    Raises UsageError for values out of range, a total that the ranks cannot share, and too small a training set.
    """
    check_counts(batch=batch, total=total, steps=steps, repeats=repeats, threads=threads)
    if not is_whole(warmup, 1):
        raise choices("benchmark.warmup", warmup, "a whole number, 1 or more: the first step sets things up")
    gpus = 0 if cfg.gpus == 0 else torch.cuda.device_count()
    counts = rank_counts(cfg, ranks, gpus)
    if any(total % count for count in counts):
        shared = ", ".join(map(str, counts))
        raise choices("benchmark.total", total, f"a multiple of each number of ranks, {shared}")
    _check_data(cfg, max(total, batch * counts[-1]))
    cases = [("weak", n, batch) for n in counts] + [("strong", n, total // n) for n in counts]
    folder = Run(cfg).folder / "launches"
    options = {"steps": steps, "warmup": warmup, "threads": threads}
    points = {(n, size): _point(cfg, folder, n, size, bool(gpus), options) for _, n, size in cases}
    timings = in_turn({p.name: p for p in points.values()}, steps=repeats, warmup=0, title="training steps")
    if all(reasons := [point.failed for point in points.values()]):
        raise UsageError(f"no number of ranks could train: {reasons[0]}")
    rows = [scaling_row(kind, points[n, size], points[1, size if kind == "weak" else total]) for kind, n, size in cases]
    return Result(
        tables={"scaling": rows, "published": published_rows()},
        notes=scaling_notes(list(points.values()), timings, gpus, threads),
        plots=scaling_plots(rows),
    )


def rank_counts(cfg: DictConfig, ranks: Sequence[int] | None, gpus: int) -> list[int]:
    """The numbers of ranks in rising order. ranks: None for 1, 2, 4, … up to the key `ranks`, else up to the GPUs or
    the cores. gpus: of this machine, 0 to use the CPU.

    Raises UsageError for numbers that are not whole, different, and 1 among them, and for more than the GPUs.
    """
    if ranks is None:
        largest = cfg.ranks or gpus or cores()
        ranks = [1 << power for power in range(largest.bit_length())]
    different = len(set(ranks)) == len(ranks)
    if 1 not in ranks or not different or not all(is_whole(n, 1) for n in ranks):
        raise choices("benchmark.ranks", list(ranks), "different whole numbers, 1 among them")
    if gpus and max(ranks) > gpus:
        raise choices("benchmark.ranks", list(ranks), f"at most the {gpus} GPUs of this machine, or gpus=0")
    return sorted(ranks)


def _check_data(cfg: DictConfig, largest: int) -> None:
    """Make the corpus. Raises UsageError if it does not fill the largest step."""
    data = set_up(cfg).data
    if (utterances := len(data.sets["train"])) < largest:
        raise choices("benchmark.batch and total", largest, f"at most the {utterances} training utterances per step")


def _point(cfg: DictConfig, folder: Path, ranks: int, batch: int, gpus: bool, options: Mapping[str, int]) -> Point:
    own, path = copy.deepcopy(cfg), folder / f"{ranks}x{batch}.yaml"
    measurement = str(path.with_suffix(".json").resolve())
    with open_dict(own):
        own.benchmark = {"steps": options["steps"], "warmup": options["warmup"], "measurement": measurement}
        own.ranks, own.gpus, own.threads = ranks, "auto" if gpus else 0, options["threads"]
        own.batch.size, own.batch.seconds = batch, None
    folder.mkdir(parents=True, exist_ok=True)
    write(path, OmegaConf.to_yaml(own, resolve=True))
    return Point(ranks, batch, path, options["threads"])


def _launch(config: Path, ranks: int, threads: int, log: Path) -> int:
    """Start the ranks as those of a run are started, and return the exit code."""
    own = {"OMP_NUM_THREADS": str(threads), LAUNCHER: announce_launcher()}
    words = command(SCRIPT, config, ranks, threads)
    with log.open("ab") as file:
        done = subprocess.run(words, env={**child_environment(), **own}, stdout=file, stderr=file, check=False)
    return done.returncode


def failure_reason(log: Path) -> str:
    """The last line in which the processes name an error."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line.strip() for line in lines if ERROR.search(line) and "ChildFailedError" not in line]
    return next(reversed(errors), f"see {log}")


def scaling_row(kind: str, point: Point, single: Point) -> ScalingRow:
    """The row of a point. kind: weak or strong; single: the point of one rank that it is compared with."""
    seconds, rate, base, peak = point.median("seconds"), point.median("R"), single.median("R"), point.median("peak")
    gain = None if rate is None or base is None else rate / base
    return {
        "scaling": kind,
        "ranks": point.ranks,
        "batch per rank": point.batch,
        "total batch": point.ranks * point.batch,
        "ms per step": None if seconds is None else 1000 * seconds,
        "R": rate,
        "efficiency %": None if gain is None else 100 * gain / point.ranks,
        "utterances per step": point.median("utterances"),  # fewer than the batch at the end of an epoch
        "peak MiB per rank": None if peak is None else peak / 2**20,
    }


def published_rows() -> list[PublishedRow]:
    """The papers' times of an epoch by number of GPUs, with the same efficiency."""
    return [
        {
            "source (published)": experiment["source"],
            "setting": experiment["setting"],
            "GPUs": n,
            "epoch, as printed": time,
            "speed-up": None if time is None else experiment["epoch"][1] / time,
            "efficiency %": None if time is None else 100 * experiment["epoch"][1] / time / n,
        }
        for experiment in published("scaling")
        for n, time in experiment["epoch"].items()
    ]


def scaling_notes(points: Sequence[Point], timings: Mapping[str, Timing], gpus: int, threads: int) -> list[str]:
    """Notes for readers of the rows: backend, threads, other work on the machine, failures, noise, sources."""
    backend = "GPUs, NCCL" if gpus else "processes on the CPU, gloo"
    lines = [f"ranks are {backend}, threads of each: {threads}; R: hours of audio trained per second, of all together"]
    largest = max(point.ranks for point in points)
    if not gpus and largest * threads > cores():
        lines.append(f"{largest} ranks of {threads} threads share {cores()} cores: more ranks than cores gain nothing")
    if (load := os.getloadavg()[0]) > cores() + largest * threads:
        lines.append(f"the machine is busy with other work, too: {load:.1f} processes compete for {cores()} cores")
    lines += [f"{p.ranks} ranks, batch {p.batch} per rank, failed: {p.failed}" for p in points if p.failed is not None]
    lines += noise_notes({p.name: timings[p.name] for p in points if p.failed is None})
    unclear = "in seconds, says the text, though 960 h in 119 s is not likely; it leaves full precision open (???)"
    return [*lines, f"published: Ambroszczyk2019 §2.5 gives epochs {unclear}"]


def scaling_plots(rows: Sequence[ScalingRow]) -> list[Plot]:
    """Efficiency and throughput by ranks, the papers' efficiency beside."""
    kinds = ("weak", "strong")
    own = {kind: {row["ranks"]: row["efficiency %"] for row in rows if row["scaling"] == kind} for kind in kinds}
    rates = {kind: {row["ranks"]: row["R"] for row in rows if row["scaling"] == kind} for kind in kinds}
    papers: dict[str, dict[int, float | None]] = {}
    for row in published_rows():
        if row["efficiency %"] is not None:
            papers.setdefault(f"published, {row['source (published)']}", {})[row["GPUs"]] = row["efficiency %"]
    return [
        plot("Efficiency by ranks", "lines", "ranks", "R(n) / n R(1) in %", {**own, **papers}),
        plot("Throughput by ranks", "lines", "ranks", "hours of audio per second", rates),
    ]
