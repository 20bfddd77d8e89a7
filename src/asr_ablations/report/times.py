"""What accuracy took, and what training costs, as sections."""

from collections.abc import Sequence

from asr_ablations.comparison.epochs import epoch_times
from asr_ablations.comparison.metrics import find_metric
from asr_ablations.comparison.result import Comparison, TimeToAccuracy
from asr_ablations.comparison.scaling import Scaling, scaling
from asr_ablations.comparison.time_to_accuracy import relative_time
from asr_ablations.report.section import Section, mean, number, ratio_text, spread

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
            ratio_text(ratio),
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


def epochs_section(comparison: Comparison) -> Section:
    """Mean and deviations of an epoch's seconds, and their ratio to the baseline's (Ambroszczyk2019 §2.1, §2.5)."""
    rows = [
        [
            times.arm,
            str(times.runs),
            str(times.epochs),
            number(times.first, 1),
            number(times.mean, 1),
            number(times.over_epochs, 1),
            number(times.over_runs, 1),
            ratio_text(times.ratio),
        ]
        for times in epoch_times(comparison.arms, comparison.baseline)
    ]
    head = ["arm", "n", "epochs", "first s", "s per epoch", "sd over epochs", "sd over seeds"]
    line = (
        "Training batches alone, without validation and checkpoints. The first epoch fills caches and tunes kernels: "
        "it is in no mean and no deviation. In brackets: 95 % over seeds."
    )
    ratio = f"time / {comparison.baseline} (95 %)"
    return Section("Seconds per epoch", [*head, ratio], rows, [line] if rows else [])


def scaling_section(comparison: Comparison) -> Section:
    """Epochs and speed over the number of processes, as in Ambroszczyk2019 tables 2.1 and 2.2, and their price."""
    rows = scaling(comparison.arms)
    priced, named = any(row.price is not None for row in rows), any(row.series for row in rows)
    head = [
        *(["runs"] if named else []),
        *("GPUs" if all(row.device == "GPU" for row in rows) else "processes", "n", "batch of each"),
        *("minutes per epoch", "s of audio per second", "speed-up (95 %)", "efficiency %"),
        *(["price of an epoch"] if priced else []),
    ]
    cells = [
        [
            *([row.series] if named else []),
            str(row.processes),
            str(row.n),
            row.batch,
            spread(row.epoch_seconds / 60, None if row.deviation is None else row.deviation / 60, 2),
            "NA" if row.audio_hours_per_second is None else f"{3600 * row.audio_hours_per_second:,.0f}",
            ratio_text(row.speed_up),
            f"{100 * row.efficiency:.0f}",
            *([number(row.price, 4)] if priced else []),
        ]
        for row in rows
    ]
    return Section("Scaling over processes that train together", head, cells, _scaling_notes(rows))


def _scaling_notes(rows: Sequence[Scaling]) -> list[str]:
    if not rows:
        return []
    base = "Speed-up: over the fewest processes of otherwise equal runs; efficiency: its share of the possible."
    if len({(row.series, row.batch) for row in rows}) == len({row.series for row in rows}):
        return [f"{base} Each process keeps its batch, so the batch of an update grows with their number."]
    return [f"{base} The batch of each process differs: its effect on the time cannot be told from that of the number."]
