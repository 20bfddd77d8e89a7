"""What accuracy took, and what training costs, as sections."""

from asr_ablations.comparison.metrics import find_metric
from asr_ablations.comparison.result import Comparison, TimeToAccuracy
from asr_ablations.comparison.time_to_accuracy import relative_time
from asr_ablations.report.section import Section, mean, number

CHOSEN = (
    "The targets were chosen from these curves: what every run reached, what half of them reached, and what only the "
    "best one did. They were not declared beforehand, so they describe, and confirm nothing."
)


def time_to_accuracy_section(comparison: Comparison) -> Section:
    """Means over the seeds of an arm, and their ratio to the baseline's mean; NA where a seed never got that far."""
    metric = find_metric(comparison.metric)
    cost = any(time.cost is not None for time in comparison.times_to_accuracy)
    target_head = f"target, {metric.unit}"
    head = ["arm", target_head, "reached", "seconds", f"time / {comparison.baseline}", "steps", "audio h", "epochs"]
    groups: dict[tuple[str, float], list[TimeToAccuracy]] = {}
    for time in comparison.times_to_accuracy:
        groups.setdefault((time.arm, time.target), []).append(time)
    rows = []
    for (arm, target), times in groups.items():
        ratio = relative_time(comparison.times_to_accuracy, arm, comparison.baseline, target)
        rows.append([
            arm,
            f"{metric.scale * target:.3g}",
            f"{sum(time.steps is not None for time in times)} of {len(times)}",
            mean([time.seconds for time in times], 1),
            number(ratio, 2),
            mean([time.steps for time in times], 1),
            mean([time.audio_hours for time in times], 3),
            mean([time.epochs for time in times], 1),
            *([mean([time.cost for time in times], 4)] if cost else []),
        ])  # fmt: skip
    heading = f"Until the median of three validations was at a {metric.label}"
    lines = [CHOSEN] if any(time.chosen for time in comparison.times_to_accuracy) else []
    return Section(heading, [*head, *(["cost"] if cost else [])], rows, lines)


def equal_cost_section(comparison: Comparison) -> Section:
    """The metric at validation, at the largest budget that every run has spent."""
    metric = find_metric(comparison.metric)
    units = {"steps": "steps", "audio_hours": "hours of audio", "seconds": "seconds"}
    rows = [
        [f"{row['budget']:.6g} {units[row['axis']]}", row["arm"], metric.spread(row["mean"], row["deviation"])]
        for row in comparison.equal_cost
    ]
    return Section(f"Validation {metric.label} at equal cost", ["after", "arm", metric.heading], rows)


def scaling_section(comparison: Comparison) -> Section:
    """Speed over the number of GPUs."""
    rows = [
        [
            str(row["gpus"]),
            str(row["n"]),
            f"{3600 * row['audio_hours_per_second']:.0f}",
            f"{row['speed_up']:.2f}",
            f"{100 * row['efficiency']:.0f}",
        ]
        for row in comparison.scaling
    ]
    return Section("Scaling over GPUs", ["GPUs", "n", "s of audio per second", "speed-up", "efficiency %"], rows)
