"""Time to accuracy, accuracy at equal cost, and scaling over GPUs, of the arms of a comparison."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from asr_ablations.comparison.confounds import content
from asr_ablations.comparison.result import Arm, Reached
from asr_ablations.comparison.table import validation_set
from asr_ablations.runs.record import RunRecord
from asr_ablations.statistics.seeds import mean_and_deviation
from asr_ablations.statistics.time_to_accuracy import (
    AXES,
    Row,
    at_budget,
    choose_targets,
    spent_by_all,
    time_to_accuracy,
    validations,
)


def curve(run: RunRecord, metric: str) -> list[Row]:
    """The metric at every validation, with what had been spent. Audio is the same in every epoch: where it was not
    recorded it is taken from the total.
    """
    rows = validations(run.metrics, f"validation/{validation_set(run)}/{metric}")
    epochs, hours = run.summary.get("epochs"), run.summary.get("audio_hours_seen")
    if epochs and hours:
        for row in rows:
            if row["audio_hours"] is None and row["epochs"] is not None:
                row["audio_hours"] = hours * row["epochs"] / epochs
    return rows


def reached(arms: Sequence[Arm], metric: str, targets: Sequence[float]) -> tuple[list[Reached], list[str]]:
    """Every run at every target, easiest first; the curves choose the targets where none are given."""
    curves = [curve(run, metric) for arm in arms for run in arm.runs]
    warnings = []
    if any(row["seconds"] is None for rows in curves for row in rows):
        warnings.append("some runs recorded no times at their validations: time to accuracy is NA there")
    if not all(curves):
        warnings.append(f"some runs have no validation {metric.upper()} in metrics.csv: time to accuracy is NA there")
    wanted = sorted(targets, reverse=True) or choose_targets(curves)
    return [_reached(arm, run, metric, target) for target in wanted for arm in arms for run in arm.runs], warnings


def _reached(arm: Arm, run: RunRecord, metric: str, target: float) -> Reached:
    row = time_to_accuracy(curve(run, metric), target) or dict.fromkeys(AXES)
    price = (run.config.get("hardware") or {}).get("price_per_hour")
    seconds = row["seconds"]
    cost = None if price is None or seconds is None else seconds / 3600 * float(price)
    return Reached(
        arm=arm.name, seed=run.seed, metric=metric, target=target, seconds=seconds, steps=row["steps"],
        audio_hours=row["audio_hours"], epochs=row["epochs"], cost=cost,
    )  # fmt: skip


def relative_time(found: Sequence[Reached], arm: str, baseline: str, target: float) -> float | None:
    """The arm's mean time to a target over the baseline's; None where a seed of either never reached it, since the mean
    of those that did would flatter.
    """
    own, base = ([one.seconds for one in found if one.arm == name and one.target == target] for name in (arm, baseline))
    if not own or not base or None in own or None in base:
        return None
    return float(np.mean(own) / np.mean(base))  # type: ignore[arg-type]


def at_equal_cost(arms: Sequence[Arm], metric: str) -> list[dict[str, Any]]:
    """Validation rates where every run has spent the same: the most that all of them have."""
    curves = {arm.name: [curve(run, metric) for run in arm.runs] for arm in arms}
    rows = []
    for axis in ("steps", "audio_hours", "seconds"):
        budget = spent_by_all([one for group in curves.values() for one in group], axis)
        if budget is None:
            continue
        for name, group in curves.items():
            values = [value for one in group if (value := at_budget(one, axis, budget)) is not None]
            if values:
                mean, deviation = mean_and_deviation(values)
                told = {"mean": mean, "deviation": deviation, "n": len(values)}
                rows.append({"arm": name, "axis": axis, "budget": budget, **told})
    return rows


def scaling(arms: Sequence[Arm]) -> list[dict[str, Any]]:
    """Speed-up and efficiency by number of GPUs, each within runs that are otherwise alike (papers/003 §2.5), then the
    mean over such groups; empty where no group used several numbers. Speed is hours of audio a second in the training
    step.
    """
    gains: dict[int, list[float]] = {}
    speeds: dict[int, list[float]] = {}
    for by_count in _speeds_of_alike([run for arm in arms for run in arm.runs]):
        fewest = min(by_count)
        for count, found in by_count.items():
            gains.setdefault(count, []).append(fewest * float(np.mean(found)) / float(np.mean(by_count[fewest])))
            speeds.setdefault(count, []).extend(found)
    return [
        {
            "gpus": count,
            "n": len(speeds[count]),
            "audio_hours_per_second": float(np.mean(speeds[count])),
            "speed_up": float(np.mean(gains[count])) / min(gains),
            "efficiency": float(np.mean(gains[count])) / count,
        }
        for count in sorted(gains)
    ]


def _speeds_of_alike(runs: Sequence[RunRecord]) -> list[dict[int, list[float]]]:
    """For each group of runs that differ in gpus and seed only, and in more than one number of GPUs: their speeds."""
    groups: dict[str, dict[int, list[float]]] = {}
    for run in runs:
        speed, count = run.summary.get("audio_hours_per_second"), gpu_count(run)
        if speed and count:
            rest = {key: value for key, value in content(run).items() if key != "gpus"}
            groups.setdefault(json.dumps(rest, sort_keys=True), {}).setdefault(count, []).append(float(speed))
    return [by_count for by_count in groups.values() if len(by_count) > 1]


def gpu_count(run: RunRecord) -> int:
    """GPUs that a run used; 0 is the CPU."""
    there = len(run.environment.get("hardware", {}).get("gpus", []))
    asked = run.config.get("gpus", "auto")
    return there if asked == "auto" else int(asked)
