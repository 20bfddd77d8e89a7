"""Hours of audio trained a second, over time and on the whole (papers/004 figures 9 and 10)."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from asr_ablations.comparison.result import Comparison
from asr_ablations.report.curves import Curve, arm_band, smooth
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.utilisation import read_utilisation
from asr_ablations.tools.plotting import bar, legend, line, panels, save

SMOOTHED = 3
"""Standard deviation of the filter over samples, which are about a second apart."""


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """throughput: seconds of audio a second over time, validation and checkpoints included; and means over training."""
    rates = [[r for run in arm.runs if (r := run.summary.get("audio_hours_per_second"))] for arm in comparison.arms]
    if not any(rates):
        return []
    figure, (over_time, means) = panels(2)
    for number, arm in enumerate(comparison.arms):
        if arm.runs:
            _over_time(over_time, number, arm.name, arm.runs[0], comparison)
    for number, found in enumerate(rates):
        values = 3600 * np.array(found)
        means.bar(number, values.mean() if found else 0, 0.7, **bar(number))
        means.plot([number] * len(found), values, "o", color="black", markersize=2.5)
    means.set_xticks(range(len(rates)), [arm.name for arm in comparison.arms], rotation=20 if len(rates) > 3 else 0)
    means.set_ylabel("seconds of audio a second")
    means.set_title("in the training step, a dot a seed")
    means.grid(False, axis="x")
    over_time.set_xlabel("time in seconds")
    over_time.set_ylabel("seconds of audio a second")
    over_time.set_title("over time, first seed")
    over_time.set_ylim(bottom=0)
    legend(figure, over_time)
    return save(figure, folder, "throughput")


def _over_time(panel: Axes, number: int, name: str, run: RunRecord, comparison: Comparison) -> None:
    found = sampled(run)
    if not len(found.y):  # a run without samples still has a value an epoch
        arm = comparison.arms[number]
        epochs = arm_band(arm, "train/audio_hours_per_second", "time")
        if epochs is not None:
            panel.plot(epochs.x, 3600 * epochs.mean, label=name, **line(number))
        return
    panel.plot(found.x, smooth(found.y, SMOOTHED), label=name, **line(number))


def sampled(run: RunRecord) -> Curve:
    """Seconds of audio trained a second between one sample and the next, before the final evaluation."""
    rows = [r for r in read_utilisation(run.folder) if r["audio_hours"] is not None and r["phase"] != "evaluate"]
    seconds, hours = (np.array([row[key] for row in rows], float) for key in ("seconds", "audio_hours"))
    if len(rows) < 2 or np.any(np.diff(seconds) <= 0):
        return Curve(np.zeros(0), np.zeros(0))
    return Curve(seconds[1:], 3600 * np.diff(hours) / np.diff(seconds))
