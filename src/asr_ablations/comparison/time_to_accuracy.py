"""The cost of a run until it reaches an accuracy, its accuracy at a given cost, and ratios of times."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, NamedTuple, TypedDict

import numpy as np

from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.metrics import Metric, validation_set
from asr_verdicts.record import Record
from asr_verdicts.statistics.distributions import t_bound
from asr_verdicts.statistics.estimate import over_seeds, run_noise
from asr_verdicts.statistics.intervals import Range
from asr_verdicts.statistics.sample import mean_and_deviation

VALIDATIONS = 3
"""e of Baunsgaard2020 §4.1.2: the median of e validations has to reach the target, so that it is no accident."""

Axis = Literal["seconds", "steps", "audio_hours", "epochs"]
"""The costs of a training."""
AXES: dict[Axis, str] = {
    "seconds": "time/seconds",
    "steps": "step",
    "audio_hours": "time/audio_hours",
    "epochs": "epoch",
}
"""The column of metrics.csv for each axis. Steps and epochs are counted there from 0."""
EQUAL_AXES: tuple[Axis, ...] = ("steps", "audio_hours", "seconds")


class Ratio(NamedTuple):
    """A ratio of geometric means with its 95 % interval over runs; None where a side has a single run."""

    value: float
    low: float | None
    high: float | None


def ratio_of_times(
    arm: Sequence[float], baseline: Sequence[float], *, itself: bool = False, level: float = 0.05
) -> Ratio | None:
    """The time of an arm's runs over that of the baseline's, in any unit, with an interval of 1 − `level`; None without
    times, or for a time of 0. itself: both are the same runs, whose ratio is 1 without any doubt.

    A time is multiplied by what disturbs it, so the interval is Welch's on the scale of logarithms. A run that never
    gets there has no time: leaving it out would compare the fast ones only, so such an arm gives no times at all.
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
    """The ratio with its interval, where it has one."""
    if ratio is None:
        return "NA"
    interval = "" if ratio.low is None or ratio.high is None else f" ({ratio.low:.2f} to {ratio.high:.2f})"
    return f"{ratio.value:.2f}{interval}"


@dataclass(frozen=True)
class Validation:
    """The value of a metric at a validation, and what the run had spent by then; None where it was not recorded."""

    value: float
    spent: Mapping[Axis, float | None]


def validations(
    metrics: Sequence[Mapping[str, float | None]], key: str, hours: float | None = None
) -> list[Validation]:
    """Every validation that logged `key`, from the rows of metrics.csv. hours: of audio in an epoch, if a row lacks
    them.
    """
    rows = ((value, row) for row in metrics if (value := row.get(key)) is not None and not math.isnan(value))
    return [Validation(value, _spent(row, hours)) for value, row in rows]


def _spent(row: Mapping[str, float | None], hours: float | None) -> dict[Axis, float | None]:
    steps, epochs = (None if (last := row.get(AXES[axis])) is None else last + 1 for axis in ("steps", "epochs"))
    audio = row.get(AXES["audio_hours"])
    if audio is None and epochs is not None and hours is not None:
        audio = hours * epochs
    return {"seconds": row.get(AXES["seconds"]), "steps": steps, "audio_hours": audio, "epochs": epochs}


def curve(run: Record, metric: Metric) -> list[Validation]:
    """The metric at every validation, with what had been spent. Every epoch has the same audio: where hours of audio
    were not recorded they are computed from the total.
    """
    epochs, hours = run.summary.epochs, run.summary.audio_hours_seen
    per_epoch = hours / epochs if epochs and hours else None
    return validations(run.metrics, metric.curve_key(validation_set(run)), per_epoch)


def validation_values(run: Record, metric: Metric) -> list[float]:
    """The metric at every validation on the first validation set, in order."""
    key = metric.curve_key(validation_set(run))
    return [value for row in run.metrics if (value := row.get(key)) is not None]


def running_medians(curve: Sequence[Validation], last: int = VALIDATIONS) -> list[float]:
    """The median of the last `last` values at each validation, from the first with that many."""
    values = [validation.value for validation in curve]
    return [median(values[end - last : end]) for end in range(last, len(values) + 1)]


def time_to_accuracy(curve: Sequence[Validation], target: float, last: int = VALIDATIONS) -> Validation | None:
    """TTA(target, last): the first validation at which the median of the last ones is at the target or below; None
    where that never happens (Baunsgaard2020 §4.1.2).
    """
    medians = running_medians(curve, last)
    return next((curve[end + last - 1] for end, accuracy in enumerate(medians) if accuracy <= target), None)


def choose_targets(curves: Sequence[Sequence[Validation]], last: int = VALIDATIONS) -> list[float]:
    """Up to three targets: what every run reaches, what half of the runs reach, and what only the best run reaches;
    rounded up to thousandths.
    """
    floors = sorted(min(medians) for curve in curves if (medians := running_medians(curve, last)))
    chosen = (floors[-1], floors[len(floors) // 2], floors[0]) if floors else ()
    return sorted({math.ceil(floor * 1000) / 1000 for floor in chosen}, reverse=True)


@dataclass(frozen=True)
class TimeToAccuracy:
    """The cost of a run until `metric` on the validation set reached `target`; None: it never did.

    chosen: the target was not named beforehand, but chosen from these runs' own curves. seconds and hours of
    audio of training; cost: in the currency of hardware.price_per_hour, None without a price.
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
    """Every run at every target, easiest target first. Without targets the curves choose them."""
    return times_of_arms(comparison.arms, comparison.design.metric, comparison.design.targets)


def times_of_arms(arms: Sequence[Arm], metric: Metric, targets: Sequence[float]) -> list[TimeToAccuracy]:
    """The same for arms, such as platforms, without a comparison."""
    curves = [curve(run, metric) for arm in arms for run in arm.runs]
    ordered = sorted(targets, reverse=True) if targets else choose_targets(curves)
    return [_time(arm, run, metric, target, not targets) for target in ordered for arm in arms for run in arm.runs]


def _time(arm: Arm, run: Record, metric: Metric, target: float, chosen: bool) -> TimeToAccuracy:
    reached = time_to_accuracy(curve(run, metric), target)
    spent: Mapping[Axis, float | None] = dict.fromkeys(AXES) if reached is None else reached.spent
    price, seconds = (run.config.get("hardware") or {}).get("price_per_hour"), spent["seconds"]
    return TimeToAccuracy(
        arm.name,
        run.seed,
        metric.name,
        target,
        spent["seconds"],
        spent["steps"],
        spent["audio_hours"],
        spent["epochs"],
        cost=None if price is None or seconds is None else seconds / 3600 * float(price),
        chosen=chosen,
    )


def untimed_warnings(comparison: Comparison) -> list[str]:
    """Warnings about runs of which no time to accuracy can be known."""
    metric = comparison.design.metric
    curves = [curve(run, metric) for run in comparison.runs]
    warnings = []
    if any(point.spent["seconds"] is None for points in curves for point in points):
        warnings.append("some runs recorded no times at their validations: their time to accuracy is NA")
    if not all(curves):
        warnings.append(f"some runs have no validation {metric.label} in metrics.csv: their time to accuracy is NA")
    return warnings


def relative_time(times: Sequence[TimeToAccuracy], arm: str, baseline: str, target: float) -> Ratio | None:
    """The arm's mean time to a target over the baseline's. None where a seed of either never reached it, since the mean
    of the seeds that did would flatter.
    """
    seconds = [
        [time.seconds for time in times if time.arm == name and time.target == target] for name in (arm, baseline)
    ]
    complete = [[each for each in of_arm if each is not None] for of_arm in seconds if None not in of_arm]
    return ratio_of_times(*complete, itself=arm == baseline) if len(complete) == 2 else None


class EqualCost(TypedDict):
    """The metric of an arm at validation when each run had spent `budget` on an axis: mean, deviation over n seeds."""

    arm: str
    axis: Axis
    budget: float
    mean: float
    deviation: float | None
    n: int


def at_equal_cost(arms: Sequence[Arm], metric: Metric) -> list[EqualCost]:
    """The metric at validation, at the largest budget that every run has spent, on each axis."""
    curves = {arm.name: [curve(run, metric) for run in arm.runs] for arm in arms}
    rows = []
    for axis in EQUAL_AXES:
        budget = spent_by_all([points for of_arm in curves.values() for points in of_arm], axis)
        if budget is None:
            continue
        for name, of_arm in curves.items():
            values = [value for points in of_arm if (value := at_budget(points, axis, budget)) is not None]
            if values:
                mean, deviation = mean_and_deviation(values)
                row = EqualCost(arm=name, axis=axis, budget=budget, mean=mean, deviation=deviation, n=len(values))
                rows.append(row)
    return rows


def at_budget(curve: Sequence[Validation], axis: Axis, budget: float) -> float | None:
    """The value of the last validation that had spent no more than the budget; None without any."""
    within = [point.value for point in curve if (spent := point.spent[axis]) is not None and spent <= budget]
    return within[-1] if within else None


def spent_by_all(curves: Sequence[Sequence[Validation]], axis: Axis) -> float | None:
    """The most that every curve has spent, at which all can be compared; None where a curve has not recorded it."""
    ends = [curve[-1].spent[axis] if curve else None for curve in curves]
    return min((end for end in ends if end is not None), default=None) if None not in ends else None
