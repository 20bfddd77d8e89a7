"""How training scales over ranks: a rank's batch fixed (weak), or the batch of the whole step (strong)."""

import copy
import json
import os
import re
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from asr_ablations.experiment.run import set_up
from asr_ablations.runs.folder import Run
from asr_ablations.runs.process import child_environment, command
from asr_ablations.runs.watchdog import LAUNCHER, announce_launcher
from asr_ablations.tools.errors import UsageError, choices
from asr_ablations.tools.files import write
from asr_ablations.tools.machine import cores
from asr_benchmarks.plots import plot
from asr_benchmarks.published import published
from asr_benchmarks.timing import Timing, check, in_turn, noise

SCRIPT = Path(__file__).with_name("rank_steps.py")
ERROR = re.compile(r"[Ee]rror: ")


@dataclass
class Point:
    """A number of ranks with a batch a rank; `answers` of its launches, or why the first that failed did."""

    ranks: int
    batch: int
    config: Path
    threads: int
    answers: list[dict[str, float]] = field(default_factory=list)
    failed: str | None = None

    @property
    def name(self) -> str:
        return f"{self.ranks} x {self.batch}"

    def __call__(self) -> float:
        """Train a few steps in fresh processes; the mean seconds of a step, not a number where that failed."""
        if self.failed is None:
            log, answer = self.config.with_suffix(".log"), self.config.with_suffix(".json")
            answer.unlink(missing_ok=True)
            if _launch(self.config, self.ranks, self.threads, log) or not answer.exists():
                self.failed = _reason(log)
            else:
                self.answers.append(json.loads(answer.read_text(encoding="utf-8")))
        return float("nan") if self.failed is not None else self.answers[-1]["seconds"]

    def median(self, key: str) -> float | None:
        return None if self.failed is not None else statistics.median(answer[key] for answer in self.answers)


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
) -> dict[str, Any]:
    """Rows of weak and strong scaling: milliseconds of a step, hours of audio a second (R) of all ranks together, and
    the efficiency R(n) / (n R(1)). Frozen configs and what the processes said lie in `launches` in the run's folder.

    Raises UsageError for values out of range, a total that the ranks cannot share, and too small a training set.
    """
    check(batch=batch, total=total, steps=steps, warmup=warmup, repeats=repeats, threads=threads)
    if warmup < 1:
        raise choices("benchmark.warmup", warmup, "a whole number, 1 or more: the first step sets things up")
    there = 0 if cfg.gpus == 0 else torch.cuda.device_count()
    counts = _counts(cfg, ranks, there)
    for count in counts:
        if total % count:
            raise choices(
                "benchmark.total", total, f"a multiple of each number of ranks, {', '.join(map(str, counts))}"
            )
    _check_data(cfg, max(total, batch * counts[-1]))
    wanted = [("weak", n, batch) for n in counts] + [("strong", n, total // n) for n in counts]
    folder = Run(cfg).folder / "launches"
    options = {"steps": steps, "warmup": warmup, "threads": threads}
    points = {(n, size): _point(cfg, folder, n, size, bool(there), options) for _, n, size in wanted}
    timings = in_turn({p.name: p for p in points.values()}, steps=repeats, warmup=0, title="training steps")
    if all(reasons := [point.failed for point in points.values()]):
        raise UsageError(f"no number of ranks could train: {reasons[0]}")
    rows = [_row(kind, points[n, size], points[1, size if kind == "weak" else total]) for kind, n, size in wanted]
    notes = _notes(points.values(), timings, there, threads)
    return {"scaling": rows, "published": _published(), "notes": notes, "plots": _plots(rows)}


def _counts(cfg: DictConfig, asked: Sequence[int] | None, there: int) -> list[int]:
    if asked is None:
        largest = cfg.ranks or there or cores()
        asked = [1 << power for power in range(largest.bit_length())]
    good = all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in asked)
    if not good or 1 not in asked or len(set(asked)) < len(asked):
        raise choices("benchmark.ranks", list(asked), "different whole numbers, 1 among them")
    if there and max(asked) > there:
        raise choices("benchmark.ranks", list(asked), f"at most the {there} GPUs of this machine, or gpus=0")
    return sorted(asked)


def _check_data(cfg: DictConfig, largest: int) -> None:
    """Make the corpus, and see that it fills the largest step."""
    data = set_up(cfg).data
    if (utterances := len(data.sets["train"])) < largest:
        raise choices("benchmark.batch and total", largest, f"at most the {utterances} training utterances in a step")


def _point(cfg: DictConfig, folder: Path, ranks: int, batch: int, gpus: bool, options: dict[str, Any]) -> Point:
    own, path = copy.deepcopy(cfg), folder / f"{ranks}x{batch}.yaml"
    asked = {key: options[key] for key in ("steps", "warmup")}
    with open_dict(own):
        own.benchmark = {**asked, "answer": str(path.with_suffix(".json").resolve())}
        own.ranks, own.gpus, own.threads = ranks, "auto" if gpus else 0, options["threads"]
        own.batch = {"size": batch, "seconds": None}
    folder.mkdir(parents=True, exist_ok=True)
    write(path, OmegaConf.to_yaml(own, resolve=True))
    return Point(ranks, batch, path, options["threads"])


def _launch(config: Path, ranks: int, threads: int, log: Path) -> int:
    """As a run of several ranks is started; the exit code."""
    own = {"OMP_NUM_THREADS": str(threads), LAUNCHER: announce_launcher()}
    with log.open("ab") as file:
        words = command(SCRIPT, config, ranks, threads)
        return subprocess.run(
            words, env={**child_environment(), **own}, stdout=file, stderr=file, check=False
        ).returncode


def _reason(log: Path) -> str:
    """The last line in which the processes name an error."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line.strip() for line in lines if ERROR.search(line) and "ChildFailedError" not in line]
    return next(reversed(errors), f"see {log}")


def _row(kind: str, point: Point, single: Point) -> dict[str, Any]:
    seconds, rate, base, peak = point.median("seconds"), point.median("R"), single.median("R"), point.median("peak")
    gain = None if rate is None or base is None else rate / base
    return {
        "scaling": kind,
        "ranks": point.ranks,
        "batch a rank": point.batch,
        "total batch": point.ranks * point.batch,
        "ms a step": None if seconds is None else 1000 * seconds,
        "R": rate,
        "efficiency %": None if gain is None else 100 * gain / point.ranks,
        "utterances a step": point.median("utterances"),  # fewer than the batch at the end of an epoch
        "peak MiB a rank": None if peak is None else peak / 2**20,
    }


def _published() -> list[dict[str, Any]]:
    """Times of an epoch by number of GPUs, with the same efficiency."""
    return [
        {
            "source (published)": told["source"],
            "setting": told["setting"],
            "GPUs": n,
            "epoch, as printed": time,
            "speed-up": None if time is None else told["epoch"][1] / time,
            "efficiency %": None if time is None else 100 * told["epoch"][1] / time / n,
        }
        for told in published("scaling")
        for n, time in told["epoch"].items()
    ]


def _notes(points: Any, timings: dict[str, Timing], gpus: int, threads: int) -> list[str]:
    points = list(points)
    backend = "GPUs, NCCL" if gpus else "processes on the CPU, gloo"
    lines = [f"ranks are {backend}, threads of each: {threads}; R: hours of audio trained a second, of all together"]
    largest = max(point.ranks for point in points)
    if not gpus and largest * threads > cores():
        lines.append(f"{largest} ranks of {threads} threads share {cores()} cores: more ranks than cores gain nothing")
    if (load := os.getloadavg()[0]) > cores() + largest * threads:
        lines.append(f"the machine is busy with more than this: {load:.1f} processes want one of {cores()} cores")
    lines += [f"{p.ranks} ranks, batch {p.batch} a rank, failed: {p.failed}" for p in points if p.failed is not None]
    lines += noise({name: timings[name] for name in (p.name for p in points if p.failed is None)})
    unsaid = "in seconds, the text says, though 960 h in 119 s is not likely; it leaves full precision open (???)"
    return [*lines, f"published: papers/003 gives epochs {unsaid}"]


def _plots(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    kinds = ("weak", "strong")
    own = {kind: {row["ranks"]: row["efficiency %"] for row in rows if row["scaling"] == kind} for kind in kinds}
    rates = {kind: {row["ranks"]: row["R"] for row in rows if row["scaling"] == kind} for kind in kinds}
    theirs: dict[str, dict[int, float]] = {}
    for row in _published():
        if row["efficiency %"] is not None:
            theirs.setdefault(f"published, {row['source (published)']}", {})[row["GPUs"]] = row["efficiency %"]
    return [
        plot("Efficiency by ranks", "lines", "ranks", "R(n) / n R(1) in %", {**own, **theirs}),
        plot("Throughput by ranks", "lines", "ranks", "hours of audio a second", rates),
    ]
