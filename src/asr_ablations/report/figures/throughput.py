"""Seconds of audio trained per second, over time and as a mean (Baunsgaard2020 figures 9 and 10)."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from asr_ablations.comparison.arm import Arm
from asr_ablations.comparison.result import Comparison
from asr_ablations.report.curves import arm_band, smooth, throughput_curve
from asr_ablations.tools.plotting import bar, legend, line, panels, save

SMOOTHED = 3
"""Standard deviation of the filter over samples, which are about a second apart."""


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """throughput: seconds of audio per second over time, validation and checkpoints included; and means in training."""
    rates = [[r for run in arm.runs if (r := run.summary.get("audio_hours_per_second"))] for arm in comparison.arms]
    if not any(rates):
        return []
    figure, (over_time, means) = panels(2)
    for number, (arm, of_arm) in enumerate(zip(comparison.arms, rates, strict=True)):
        _over_time(over_time, number, arm)
        values = 3600 * np.array(of_arm)
        means.bar(number, values.mean() if of_arm else 0, 0.7, **bar(number))
        means.plot([number] * len(of_arm), values, "o", color="black", markersize=2.5)
    means.set_xticks(range(len(rates)), [arm.name for arm in comparison.arms], rotation=20 if len(rates) > 3 else 0)
    means.set_ylabel("seconds of audio per second")
    means.set_title("in the training step, a dot per seed")
    means.grid(False, axis="x")
    over_time.set_xlabel("time in seconds")
    over_time.set_ylabel("seconds of audio per second")
    over_time.set_title(f"over time, first seed, smoothed over {SMOOTHED} samples")
    over_time.set_ylim(bottom=0)
    legend(figure, over_time)
    return save(figure, folder, "throughput")


def _over_time(panel: Axes, number: int, arm: Arm) -> None:
    """The line of the first seed; a run without samples still has a value per epoch, as the mean of all seeds."""
    if not arm.runs:
        return
    samples = throughput_curve(arm.runs[0])
    if len(samples.y):
        panel.plot(samples.x, smooth(samples.y, SMOOTHED), label=arm.name, **line(number))
    elif epochs := arm_band(arm, "train/audio_hours_per_second", "time"):
        panel.plot(epochs.x, 3600 * epochs.mean, label=arm.name, **line(number))
