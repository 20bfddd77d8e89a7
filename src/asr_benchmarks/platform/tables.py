"""The tables of benchmark=platform, from the record of its training."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import TypedDict, TypeVar

import numpy as np

from asr_ablations.comparison.time_to_accuracy import curve, times_of_arms
from asr_ablations.comparison.validation_costs import TimeToAccuracy
from asr_ablations.report.curves import smooth, throughput_curve
from asr_ablations.report.figures.training_curves import SMOOTHED_STEPS
from asr_ablations.runs.metrics_files import read_utilisation
from asr_benchmarks.platform.beam_widths import BeamRow
from asr_benchmarks.plots import Plot, plot
from asr_benchmarks.tables import Table
from asr_verdicts.arms import Arm
from asr_verdicts.files import Json
from asr_verdicts.metrics import CER, CER_LONGER, WER, Metric, find_metric
from asr_verdicts.record import Record

SAMPLED = {
    "CPU %": "cpu_percent",
    "memory GiB": "host_memory_gib",
    "GPU %": "gpu_percent",
    "GPU memory GiB": "gpu_memory_gib",
    "GPU power W": "gpu_power_watts",
}
"""Rows of the table `utilisation`, and their columns in utilisation.csv."""

PARTS = {"total": "the machine", "gpus": "its GPUs", "cpus": "its CPUs"}
"""The keys of benchmark.price (Baunsgaard2020 table 1), and their rows of the table `price`."""

ThroughputRow = TypedDict("ThroughputRow", {"of": str, "R": float, "times real time": float, "utterances/s": float})

TargetRow = TypedDict(
    "TargetRow",
    {
        "rate": str,
        "target %": str,
        "minutes": float | None,
        "epochs trained": float | None,
        "hours of audio": float | None,
        "GPU kWh": float | None,
        "cost": float | None,
    },
)
"""What it took to reach a target; None for a target that was not reached."""


T = TypeVar("T")


def figures(run: Record) -> dict[str, object]:
    """Single figures of the whole training."""
    return {
        "parameters": run.summary.parameters,
        "epochs": run.summary.epochs,
        "minutes of training": run.summary.seconds["train"] / 60,
        "hours of audio trained": recorded(run.summary.audio_hours_seen),
        "waiting for data %": waiting(run),
        "peak memory GiB": recorded(run.summary.peak_memory_bytes) / 2**30,
        "GPU kWh": energy(read_utilisation(run.folder)),
    }


def recorded(value: T | None) -> T:
    """A value that every finished run records."""
    assert value is not None
    return value


def throughput(run: Record) -> list[ThroughputRow]:
    """Throughput of the training steps, and of the training with its validations and checkpoints.

    R: hours of audio per second; utterances are the elements of Baunsgaard2020 §4.1.3.
    """
    summary = run.summary
    per_hour = recorded(summary.train_utterances) / recorded(summary.train_hours)
    rates: dict[str, float] = {
        "training steps": recorded(summary.audio_hours_per_second),
        "with validations": recorded(summary.audio_hours_seen) / summary.seconds["train"],
    }
    return [
        {"of": name, "R": rate, "times real time": 3600 * rate, "utterances/s": per_hour * rate}
        for name, rate in rates.items()
    ]


def phases(run: Record) -> Table:
    """Seconds of each phase and its share of the time, from the set-up to the final evaluation."""
    by_phase = recorded(run.summary.phase_seconds)
    whole = sum(by_phase.values())
    return [
        {"phase": phase, "seconds": float(seconds), "share %": 100 * seconds / whole}
        for phase, seconds in by_phase.items()
    ]


def utilisation(run: Record) -> Table:
    """Means over the samples of the training steps and over all samples; None for what the machine does not report."""
    rows = read_utilisation(run.folder)
    steps = [row for row in rows if row["phase"] == "train"]
    return [
        {"mean": name, "training steps": _mean(steps, column), "whole run": _mean(rows, column)}
        for name, column in SAMPLED.items()
    ]


def waiting(run: Record) -> float | None:
    """Share of training that is not spent in steps, in %, as the mean over the epochs."""
    known = [value for row in run.metrics if (value := row.get("train/waiting_percent")) is not None]
    return fmean(known) if known else None


def energy(rows: Sequence[Json], until: float | None = None) -> float | None:
    """kWh that the GPUs used in the first `until` seconds of training; None where one of these samples has no power."""
    within = [row for row in rows if until is None or row["seconds"] <= until]
    if len(within) < 2 or any(row["gpu_power_watts"] is None for row in within):
        return None
    joules = sum((after["seconds"] - row["seconds"]) * after["gpu_power_watts"] for row, after in pairwise(within))
    return float(joules) / 3.6e6


def time_to_accuracy(run: Record, targets: Mapping[str, Sequence[float]]) -> list[TargetRow]:
    """Return time and cost until each target rate. targets: shares by metric; cost: by hardware.price_per_hour."""
    samples = read_utilisation(run.folder)
    return [
        _target(find_metric(rate).label, attempt, samples)
        for rate, values in targets.items()
        for attempt in (times_of_arms([Arm("", [run])], find_metric(rate), values) if values else [])
    ]


def _target(rate: str, attempt: TimeToAccuracy, samples: Sequence[Json]) -> TargetRow:
    seconds = attempt.seconds
    return {
        "rate": rate,
        "target %": f"{100 * attempt.target:g}",
        "minutes": None if seconds is None else seconds / 60,
        "epochs trained": attempt.epochs,
        "hours of audio": attempt.audio_hours,
        "GPU kWh": None if seconds is None else energy(samples, seconds),
        "cost": attempt.cost,
    }


def accuracy(run: Record) -> Table:
    """Error rates of the last weights on every set, with the run's own decoder (Baunsgaard2020 table 5)."""
    return [
        {
            "set": name,
            **{
                metric.heading: 100 * recorded(run.summary.value(name, metric.name))
                for metric in (WER, CER, CER_LONGER)
            },
        }
        for name in run.summary.sets
    ]


def price(run: Record, bought: Mapping[str, float | None]) -> Table:
    """Prices in any currency: the machine and its parts as bought, and an hour of the machine, this training and an
    hour of audio trained as rented.
    """
    per_hour = (run.config.get("hardware") or {}).get("price_per_hour")
    training = None if per_hour is None else float(per_hour) * run.summary.seconds["train"] / 3600
    prices = {
        **{name: bought.get(part) for part, name in PARTS.items()},
        "an hour of the machine": per_hour,
        "this training": training,
        "an hour of audio trained": None if training is None else training / recorded(run.summary.audio_hours_seen),
    }
    return [{"of": name, "price": None if amount is None else float(amount)} for name, amount in prices.items()]


def _mean(rows: Sequence[Json], column: str) -> float | None:
    known = [row[column] for row in rows if row[column] is not None]
    return fmean(known) if known else None


WINDOW = 25.0
"""Seconds that figure 8 shows."""
POINTS = 100
"""Points of a line over the whole training."""

Line = dict[float, float | None]


def plots(
    run: Record, throughput: Sequence[ThroughputRow], targets: Sequence[TargetRow], evaluated: Sequence[BeamRow]
) -> list[Plot]:
    """The plots for which the run has something to show."""
    rates = {metric.label: _rates(run, metric) for metric in (WER, CER_LONGER)}
    speeds = {"training": {row["of"]: row["times real time"] for row in throughput}}
    reached = {f"{row['rate']} {row['target %']} %": row["minutes"] for row in targets}
    seconds = {row["beam width"]: row["seconds"] for row in evaluated}
    minutes, over_time = "minutes of training", "seconds of audio per second"
    drawn = [
        plot("Utilisation over 25 seconds", "lines", "seconds", "%", _window(read_utilisation(run.folder))),
        plot("Throughput over time", "lines", minutes, over_time, {"training": _over_time(run)}),
        plot("Throughput", "bars", "", over_time, speeds),
        plot("Rates over time", "lines", minutes, "%", rates, log=True),
        plot("Time to accuracy", "bars", "median over three validations", "minutes", {"reached": reached}),
        plot("Evaluation time by beam width", "lines", "beam width", "seconds", {"beam": seconds}, log=True),
    ]
    return [shown for shown in drawn if any(y is not None for line in shown["series"].values() for _, y in line)]


def _window(rows: Sequence[Json]) -> dict[str, Line]:
    """CPU and each GPU in % over WINDOW seconds, in the middle of the samples of training."""
    steps = [row for row in rows if row["phase"] == "train"] or list(rows)
    if not steps:
        return {}
    begin = max(steps[0]["seconds"], steps[len(steps) // 2]["seconds"] - WINDOW / 2)
    within = [row for row in rows if begin <= row["seconds"] <= begin + WINDOW]
    lines: dict[str, Line] = {"CPU": {round(row["seconds"] - begin, 2): row["cpu_percent"] for row in within}}
    for number in range(max((len(row["gpu_percents"]) for row in within), default=0)):
        known = [row for row in within if len(row["gpu_percents"]) > number]
        lines[f"GPU {number}"] = {round(row["seconds"] - begin, 2): row["gpu_percents"][number] for row in known}
    return lines


def _over_time(run: Record) -> Line:
    samples = throughput_curve(run)
    parts = np.array_split(np.arange(len(samples.y)), min(POINTS, max(1, len(samples.y))))
    values = smooth(samples.y, SMOOTHED_STEPS)
    return {float(samples.x[part].mean()) / 60: float(values[part].mean()) for part in parts if len(part)}


def _rates(run: Record, metric: Metric) -> Line:
    """A rate in % by the minutes of training at each validation, without zeros, which have no logarithm."""
    points = ((point.spent["seconds"], point.value) for point in curve(run, metric))
    return {seconds / 60: 100 * value for seconds, value in points if seconds is not None and value}
