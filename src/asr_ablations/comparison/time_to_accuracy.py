"""Time to accuracy, and accuracy at equal cost, for the arms of a comparison."""

from collections.abc import Sequence
from dataclasses import replace

from asr_ablations.comparison.validation_costs import (
    AXES,
    Axis,
    EqualCost,
    Ratio,
    TimeToAccuracy,
    Validation,
    at_budget,
    choose_targets,
    ratio_of_times,
    spent_by_all,
    time_to_accuracy,
    validations,
)
from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.metrics import Metric, validation_set
from asr_verdicts.record import Record
from asr_verdicts.statistics.sample import mean_and_deviation

EQUAL_AXES: tuple[Axis, ...] = ("steps", "audio_hours", "seconds")


def curve(run: Record, metric: Metric) -> list[Validation]:
    """The metric at every validation, with what had been spent. Every epoch has the same audio: where hours of audio
    were not recorded they are computed from the total.
    """
    points = validations(run.metrics, metric.curve_key(validation_set(run)))
    epochs, hours = run.summary.epochs, run.summary.audio_hours_seen
    return [_with_audio(point, hours / epochs) for point in points] if epochs and hours else points


def _with_audio(point: Validation, hours_per_epoch: float) -> Validation:
    epochs = point.spent["epochs"]
    if point.spent["audio_hours"] is not None or epochs is None:
        return point
    return replace(point, spent={**point.spent, "audio_hours": hours_per_epoch * epochs})


def times_to_accuracy(comparison: Comparison) -> list[TimeToAccuracy]:
    """Every run at every target, easiest target first. Without targets the curves choose them."""
    design = comparison.design
    return times_of_arms(comparison.arms, design.metric, design.targets)


def times_of_arms(arms: Sequence[Arm], metric: Metric, targets: Sequence[float]) -> list[TimeToAccuracy]:
    """The same for arms, such as platforms, without a comparison."""
    chosen = not targets
    curves = [curve(run, metric) for arm in arms for run in arm.runs]
    ordered = choose_targets(curves) if chosen else sorted(targets, reverse=True)
    return [_time(arm, run, metric, target, chosen) for target in ordered for arm in arms for run in arm.runs]


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


def _time(arm: Arm, run: Record, metric: Metric, target: float, chosen: bool) -> TimeToAccuracy:
    reached = time_to_accuracy(curve(run, metric), target)
    spent = dict.fromkeys(AXES) if reached is None else reached.spent
    price = (run.config.get("hardware") or {}).get("price_per_hour")
    seconds = spent["seconds"]
    return TimeToAccuracy(
        arm=arm.name,
        seed=run.seed,
        metric=metric.name,
        target=target,
        seconds=seconds,
        steps=spent["steps"],
        audio_hours=spent["audio_hours"],
        epochs=spent["epochs"],
        cost=None if price is None or seconds is None else seconds / 3600 * float(price),
        chosen=chosen,
    )


def relative_time(times: Sequence[TimeToAccuracy], arm: str, baseline: str, target: float) -> Ratio | None:
    """The arm's mean time to a target over the baseline's. None where a seed of either never reached it, since the mean
    of the seeds that did would flatter.
    """
    own, base = (_seconds_of_all(times, name, target) for name in (arm, baseline))
    return ratio_of_times(own, base, itself=arm == baseline)


def _seconds_of_all(times: Sequence[TimeToAccuracy], arm: str, target: float) -> list[float]:
    """The values of every seed; empty if one is missing."""
    own = [time.seconds for time in times if time.arm == arm and time.target == target]
    known = [seconds for seconds in own if seconds is not None]
    return known if len(known) == len(own) else []


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
                rows.append(
                    EqualCost(arm=name, axis=axis, budget=budget, mean=mean, deviation=deviation, n=len(values))
                )
    return rows
