"""Measure the cost at which a run reaches a given accuracy, the accuracy at a given cost, and ratios of times."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np

from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.metrics import Metric, validation_set
from asr_verdicts.record import Record
from asr_verdicts.statistics.distributions import t_bound
from asr_verdicts.statistics.estimate import over_seeds, run_noise
from asr_verdicts.statistics.intervals import Range
from asr_verdicts.statistics.sample import mean_and_deviation

VALIDATIONS = 3
"""The median of this many validations must reach a target, because one value may be luck (Baunsgaard2020 §4.1.2)."""

AXES = {"seconds": "time/seconds", "steps": "step", "audio_hours": "time/audio_hours", "epochs": "epoch"}
"""Kinds of cost, each with its column in metrics.csv. The columns count steps and epochs from 0."""


class Ratio(NamedTuple):
    """A ratio of geometric means with a 95 % interval over runs. low, high: None if there is no interval."""

    value: float
    low: float | None
    high: float | None


def ratio_of_times(
    arm: Sequence[float], baseline: Sequence[float], *, itself: bool = False, level: float = 0.05
) -> Ratio | None:
    """Return the ratio of an arm's time to the baseline's time; None if any time is missing or 0.

    arm, baseline: times of all runs, in the same unit. itself: whether the arm is the baseline, which needs no
    interval. Load from other programs multiplies times, so the interval is Welch's interval of the logarithms, with
    confidence 1 − `level`.
    """
    if min(arm, default=0) <= 0 or min(baseline, default=0) <= 0:
        return None
    logs = [np.log(values).tolist() for values in (arm, baseline)]
    middle = float(np.mean(logs[0]) - np.mean(logs[1]))
    noise = None if itself or min(map(len, logs)) < 2 else over_seeds([run_noise(values) for values in logs])
    if noise is None or not noise.standard_error:
        return Ratio(math.exp(middle), None, None)
    half = t_bound(level / 2, noise.degrees) * noise.standard_error
    return Ratio(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def ratio_text(ratio: Ratio | Range | None) -> str:
    """Format a ratio with its interval, if any, or "NA" if there is no ratio."""
    if ratio is None:
        return "NA"
    interval = "" if ratio.low is None or ratio.high is None else f" ({ratio.low:.2f} to {ratio.high:.2f})"
    return f"{ratio.value:.2f}{interval}"


class Validation(NamedTuple):
    """The value of a metric at a validation. spent: cost of training until then, by kind; None if not recorded."""

    value: float
    spent: dict[str, float | None]


def validations(
    metrics: Sequence[Mapping[str, float | None]], key: str, hours: float | None = None
) -> list[Validation]:
    """Return all validations that logged the column `key`. metrics: rows of metrics.csv.

    hours: hours of audio per epoch, to compute the hours of audio so far in rows that lack them
    """
    logged = [(value, row) for row in metrics if (value := row.get(key)) is not None and not math.isnan(value)]
    return [Validation(value, _read_costs(row, hours)) for value, row in logged]


def _read_costs(row: Mapping[str, float | None], hours: float | None) -> dict[str, float | None]:
    spent = {axis: row.get(column) for axis, column in AXES.items()}
    spent |= {axis: count + 1 for axis in ("steps", "epochs") if (count := spent[axis]) is not None}
    if spent["audio_hours"] is None and hours and spent["epochs"]:
        spent["audio_hours"] = hours * spent["epochs"]
    return spent


def curve(run: Record, metric: Metric) -> list[Validation]:
    """Return the metric and the costs at every validation of a run.

    If a validation did not log the hours of audio, they are computed from the run's total, assuming equal epochs.
    """
    epochs, hours = run.summary.epochs, run.summary.audio_hours_seen
    per_epoch = hours / epochs if epochs and hours else None
    return validations(run.metrics, metric.curve_key(validation_set(run)), per_epoch)


def validation_values(run: Record, metric: Metric) -> list[float]:
    """Return the values of a metric on the first validation set, at all validations of a run."""
    key = metric.curve_key(validation_set(run))
    return [value for row in run.metrics if (value := row.get(key)) is not None]


def running_medians(curve: Sequence[Validation]) -> list[float]:
    """Return the median of each validation and the two before it, from the third validation on."""
    values = [validation.value for validation in curve]
    return [median(values[end - VALIDATIONS : end]) for end in range(VALIDATIONS, len(values) + 1)]


def time_to_accuracy(curve: Sequence[Validation], target: float) -> Validation | None:
    """Return the first validation whose running median reaches the target, or None (TTA in Baunsgaard2020 §4.1.2)."""
    reached = zip(curve[VALIDATIONS - 1 :], running_medians(curve), strict=True)
    return next((validation for validation, value in reached if value <= target), None)


def choose_targets(curves: Sequence[Sequence[Validation]]) -> list[float]:
    """Choose up to three targets, reached by every run, by half of the runs, and only by the best run.

    The targets are rounded up to thousandths.
    """
    floors = sorted(min(medians) for curve in curves if (medians := running_medians(curve)))
    chosen = (floors[-1], floors[len(floors) // 2], floors[0]) if floors else ()
    return sorted({math.ceil(floor * 1000) / 1000 for floor in chosen}, reverse=True)


@dataclass(frozen=True)
class TimeToAccuracy:
    """The cost of training a run until `metric` on the validation set reached `target`; None if it never did.

    - seconds, audio_hours: training time, and hours of audio used
    - cost: price in the currency of hardware.price_per_hour; None if no price is set
    - chosen: whether the target was chosen from the runs' curves, because no target was declared
    """

    arm: str
    seed: int
    metric: str
    target: float
    seconds: float | None
    steps: float | None
    audio_hours: float | None
    epochs: float | None
    cost: float | None = None
    chosen: bool = False


def times_to_accuracy(comparison: Comparison) -> list[TimeToAccuracy]:
    """Return a row for every run and target, from the easiest target to the hardest."""
    return times_of_arms(comparison.arms, comparison.design.metric, comparison.design.targets)


def times_of_arms(arms: Sequence[Arm], metric: Metric, targets: Sequence[float]) -> list[TimeToAccuracy]:
    """Return a row for every run and target. If `targets` is empty, targets are chosen from the runs' curves."""
    curves = [(arm, run, curve(run, metric)) for arm in arms for run in arm.runs]
    ordered = sorted(targets, reverse=True) if targets else choose_targets([points for _, _, points in curves])
    times = []
    for target, (arm, run, points) in itertools.product(ordered, curves):
        reached = time_to_accuracy(points, target)
        spent = reached.spent if reached else dict.fromkeys(AXES)
        price, seconds = price_per_hour(run), spent["seconds"]
        cost = None if price is None or seconds is None else seconds / 3600 * price
        times.append(TimeToAccuracy(arm.name, run.seed, metric.name, target, **spent, cost=cost, chosen=not targets))
    return times


def price_per_hour(run: Record) -> float | None:
    """Return the hourly price of a run's machine, according to the run's config; None if it is not set."""
    price = (run.config.get("hardware") or {}).get("price_per_hour")
    return None if price is None else float(price)


def untimed_warnings(comparison: Comparison) -> list[str]:
    """Return warnings about runs whose time to accuracy is unknown."""
    metric = comparison.design.metric
    curves = [curve(run, metric) for run in comparison.runs]
    warnings = []
    if any(point.spent["seconds"] is None for points in curves for point in points):
        warnings.append("some runs did not record times at their validations, so their time to accuracy is NA")
    if not all(curves):
        warnings.append(f"some runs lack a validation {metric.label} in metrics.csv, so their time to accuracy is NA")
    return warnings


def relative_time(times: Sequence[TimeToAccuracy], arm: str, baseline: str, target: float) -> Ratio | None:
    """Return the ratio of an arm's time to the baseline's time until both reach a target.

    None if a run of the arm or of the baseline did not reach it, because the mean time of the runs that did reach it
    would be too optimistic.
    """
    at_target = [time for time in times if time.target == target]
    seconds = [[time.seconds or 0.0 for time in at_target if time.arm == name] for name in (arm, baseline)]
    return ratio_of_times(*seconds, itself=arm == baseline)  # None if a time is 0


def at_equal_cost(arms: Sequence[Arm], metric: Metric) -> list[Json]:
    """Return the validation metric of each arm at equal cost, which is the largest budget that every run has spent.

    Each row contains arm, axis (the kind of cost), budget, and the mean and standard deviation over n seeds.
    """
    curves = {arm.name: [curve(run, metric) for run in arm.runs] for arm in arms}
    rows = []
    for axis in ("steps", "audio_hours", "seconds"):
        budget = spent_by_all([points for of_arm in curves.values() for points in of_arm], axis)
        if budget is None:
            continue
        for name, of_arm in curves.items():
            values = [value for points in of_arm if (value := at_budget(points, axis, budget)) is not None]
            if values:
                mean, deviation = mean_and_deviation(values)
                row = {"arm": name, "axis": axis, "budget": budget, "mean": mean, "deviation": deviation}
                rows.append({**row, "n": len(values)})
    return rows


def at_budget(curve: Sequence[Validation], axis: str, budget: float) -> float | None:
    """Return the value of the last validation within a budget; None if the first validation exceeds it."""
    within = [point.value for point in curve if (spent := point.spent[axis]) is not None and spent <= budget]
    return within[-1] if within else None


def spent_by_all(curves: Sequence[Sequence[Validation]], axis: str) -> float | None:
    """Return the largest cost of the kind `axis` that every curve has reached; None if a curve did not record it."""
    ends = [curve[-1].spent[axis] if curve else None for curve in curves]
    return min((end for end in ends if end is not None), default=None) if None not in ends else None
