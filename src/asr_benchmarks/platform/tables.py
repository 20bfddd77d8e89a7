"""The tables of benchmark=platform, from the record of its training."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from asr_ablations.comparison.result import Arm
from asr_ablations.comparison.time_to_accuracy import times_to_accuracy
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.utilisation import read_utilisation

SAMPLED = {
    "CPU %": "cpu_percent",
    "memory GiB": "host_memory_gib",
    "GPU %": "gpu_percent",
    "GPU memory GiB": "gpu_memory_gib",
    "GPU power W": "gpu_power_watts",
}
"""Rows of `utilisation` and their columns in utilisation.csv."""

PARTS = {"total": "the machine", "gpus": "its GPUs", "cpus": "its CPUs"}
"""What benchmark.price knows (papers/004 table 1)."""


def figures(run: RunRecord) -> dict[str, float | int | None]:
    """Single figures of the whole training."""
    return {
        "parameters": run.summary["parameters"],
        "epochs": run.summary["epochs"],
        "minutes of training": run.summary["seconds"]["train"] / 60,
        "hours of audio trained": float(run.summary["audio_hours_seen"]),
        "waiting for data %": waiting(run),
        "peak memory GiB": run.summary["peak_memory_bytes"] / 2**30,
        "GPU kWh": energy(read_utilisation(run.folder)),
    }


def throughput(run: RunRecord) -> list[dict[str, Any]]:
    """Of the training step, and of the training with its validations and checkpoints; utterances are the elements of
    papers/004 §4.1.3.
    """
    summary = run.summary
    each = summary["train_utterances"] / summary["train_hours"]
    rates = {
        "training steps": summary["audio_hours_per_second"],
        "with validations": summary["audio_hours_seen"] / summary["seconds"]["train"],
    }
    return [
        {"of": of, "R": rate, "times real time": 3600 * rate, "utterances/s": each * rate} for of, rate in rates.items()
    ]


def phases(run: RunRecord) -> list[dict[str, Any]]:
    """Where the time went, from the set-up to the final evaluation."""
    seconds = run.summary["phase_seconds"]
    whole = sum(seconds.values())
    return [{"phase": phase, "seconds": float(one), "share %": 100 * one / whole} for phase, one in seconds.items()]


def utilisation(run: RunRecord) -> list[dict[str, Any]]:
    """Means over the samples of the training steps and over all; None for what the machine does not tell."""
    rows = read_utilisation(run.folder)
    steps = [row for row in rows if row["phase"] == "train"]
    return [
        {"mean": name, "training steps": _mean(steps, column), "whole run": _mean(rows, column)}
        for name, column in SAMPLED.items()
    ]


def waiting(run: RunRecord) -> float | None:
    """Mean over the epochs of the share of training that is not spent in steps, in %."""
    known = [value for row in run.metrics if (value := row.get("train/waiting_percent")) is not None]
    return fmean(known) if known else None


def energy(rows: Sequence[Mapping[str, Any]], until: float | None = None) -> float | None:
    """kWh of the GPUs up to so many seconds of training; None where a sample before has no power."""
    within = [row for row in rows if until is None or row["seconds"] <= until]
    if len(within) < 2 or any(row["gpu_power_watts"] is None for row in within):
        return None
    joules = sum((after["seconds"] - row["seconds"]) * after["gpu_power_watts"] for row, after in pairwise(within))
    return float(joules) / 3.6e6


def time_to_accuracy(run: RunRecord, targets: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """What it took to each target, in %; None for those that were not reached. cost: by hardware.price_per_hour."""
    samples = read_utilisation(run.folder)
    rows = []
    for rate, values in targets.items():
        for one in times_to_accuracy([Arm("", [run])], rate, values)[0] if values else []:
            minutes = None if one.seconds is None else one.seconds / 60
            used = None if one.seconds is None else energy(samples, one.seconds)
            spent = {"minutes": minutes, "epochs trained": one.epochs, "hours of audio": one.audio_hours}
            rows.append({"rate": rate.upper(), "target %": f"{100 * one.target:g}", **spent, "GPU kWh": used,
                         "cost": one.cost})  # fmt: skip
    return rows


def accuracy(run: RunRecord) -> list[dict[str, Any]]:
    """Of the last weights, on every set, with the run's own decoder (papers/004 table 5)."""
    return [
        {"set": name, "WER %": 100 * float(found["wer"]), "CER %": 100 * float(found["cer"])}
        for name, found in run.summary["sets"].items()
    ]


def price(run: RunRecord, bought: Mapping[str, float | None]) -> list[dict[str, Any]]:
    """Of the machine as bought, and as rented: an hour, this training, an hour of audio trained; any currency."""
    hour = (run.config.get("hardware") or {}).get("price_per_hour")
    training = None if hour is None else float(hour) * run.summary["seconds"]["train"] / 3600
    rented = {
        "an hour of it": None if hour is None else float(hour),
        "this training": training,
        "an hour of audio trained": None if training is None else training / run.summary["audio_hours_seen"],
    }
    parts = {name: bought.get(part) for part, name in PARTS.items()}
    known = {name: None if amount is None else float(amount) for name, amount in parts.items()}
    return [{"of": name, "price": amount} for name, amount in {**known, **rented}.items()]


def _mean(rows: Sequence[Mapping[str, Any]], column: str) -> float | None:
    known = [row[column] for row in rows if row[column] is not None]
    return fmean(known) if known else None
