"""Figures of time to accuracy, and of scaling over GPUs (Baunsgaard2020 §5)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from asr_ablations.comparison.time_to_accuracy import TimeToAccuracy, times_to_accuracy
from asr_ablations.comparison.training_times import Scaling, scaling
from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.plotting import draw_strip, grid, legend, line, marker, save

MEASURES = {"seconds": "seconds", "audio_hours": "hours of audio", "epochs": "epochs"}


def draw_time_to_accuracy(comparison: Comparison, folder: Path) -> list[Path]:
    """Draw time_to_accuracy: a panel per measure with a dot per seed, and a line at their mean.

    If a seed failed, the number of successful seeds replaces the mean, which would be too optimistic.
    """
    times, arms = times_to_accuracy(comparison), comparison.arms
    measures = [measure for measure in MEASURES if any(getattr(time, measure) is not None for time in times)]
    if not measures:
        return []
    targets = list(dict.fromkeys(time.target for time in times))
    figure, axes = grid(len(measures))
    for panel, measure in zip(axes, measures, strict=True):
        for number, arm in enumerate(arms):
            for place, target in enumerate(targets):
                of_arm = [time for time in times if time.arm == arm.name and time.target == target]
                look = {**line(number), "label": "" if place else arm.name}
                _draw_times(panel, place - 0.5 + (number + 0.5) / len(arms), 1 / len(arms), of_arm, measure, look)
        panel.set_xticks(range(len(targets)), [comparison.design.metric.target_text(target) for target in targets])
        panel.set_ylabel(f"{MEASURES[measure]} to the target")
        panel.margins(y=0.2)
        panel.set_ylim(bottom=0)
        panel.grid(False, axis="x")
    origin = "targets chosen from these curves" if any(time.chosen for time in times) else "declared targets"
    lost = any(time.steps is None for time in times)
    figure.supxlabel(f"{origin}{'; 1/3: one of three seeds reached it' if lost else ''}", fontsize=8)
    legend(figure, axes[0])
    return save(figure, folder, "time_to_accuracy")


def _draw_times(panel: Axes, x: float, width: float, times: Sequence[TimeToAccuracy], measure: str, look: Json) -> None:
    values = [value for time in times if (value := getattr(time, measure)) is not None]
    draw_strip(panel, x, width, values, look, mean=len(values) == len(times))
    if len(values) == len(times):
        return
    reached = sum(time.steps is not None for time in times)
    text = "NA" if reached == len(times) else f"{reached}/{len(times)}"  # NA: reached at a time that was not recorded
    place: Json = {"xytext": (0, 4), "textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 7}
    panel.annotate(text, (x, max(values, default=0)), **place)


def draw_scaling(comparison: Comparison, folder: Path) -> list[Path]:
    """Draw scaling: minutes per epoch, speed-up over the fewest processes and, if known, price of an epoch. Each series
    has a line. Nothing is drawn if all runs have the same number of processes.
    """
    rows = scaling(comparison.arms)
    if not rows:
        return []
    counts = sorted({row.processes for row in rows})
    labels = ["minutes per epoch", f"speed-up over {counts[0]}", "price of an epoch"]
    figure, axes = grid(3 if any(row.price is not None for row in rows) else 2)
    for number, name in enumerate(dict.fromkeys(row.series for row in rows)):
        series = [row for row in rows if row.series == name]
        look = {**line(number), **marker(number), "capsize": 3, "label": name or "measured"}
        minutes = [(row.processes, row.epoch_seconds / 60, *[(row.deviation or 0.0) / 60] * 2) for row in series]
        prices = [(row.processes, row.price, 0.0, 0.0) for row in series if row.price is not None]
        for panel, points in zip(axes, (minutes, [_place_speed_up(row) for row in series], prices), strict=False):
            x, y, *lengths = np.array(points).reshape(-1, 4).T
            panel.errorbar(x, y, yerr=lengths, **look)
    axes[1].plot(counts, [count / counts[0] for count in counts], ":", color="#777777", label="ideal")
    for panel, label in zip(axes, labels, strict=False):
        panel.set_xticks(counts)
        panel.set_xlabel("GPUs" if all(row.device == "GPU" for row in rows) else "processes that train together")
        panel.set_ylabel(label)
        panel.margins(y=0.1)
        panel.set_ylim(bottom=0)
    legend(figure, axes[1])
    return save(figure, folder, "scaling")


def _place_speed_up(row: Scaling) -> tuple[int, float, float, float]:
    """Return the point with the lengths of its interval below and above, which are 0 without an interval."""
    value, low, high = row.speed_up
    return row.processes, value, 0.0 if low is None else value - low, 0.0 if high is None else high - value
