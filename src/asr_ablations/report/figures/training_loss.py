"""The training loss of every step over time, smoothed (Baunsgaard2020 figure 7a)."""

from pathlib import Path

import numpy as np

from asr_ablations.comparison.metrics import LOSS, different_losses
from asr_ablations.comparison.result import Comparison
from asr_ablations.report.curves import AXES, loss_curve, smooth
from asr_ablations.tools.plotting import legend, line, log_scale, panels, save

SMOOTHED = 10
"""Standard deviation of the Gaussian filter in steps, the paper's."""
POINTS = 2000
"""Largest number of points of a line: a run may have 100,000 steps."""
AXIS = "time"


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """training_loss: a line for the first seed of each arm, on a logarithmic axis where the values allow it. Nothing
    where the arms minimise different losses, which one axis cannot hold.
    """
    if len(different_losses(comparison.runs)) > 1:
        return []
    figure, (panel,) = panels(1)
    drawn: list[float] = []
    for number, arm in enumerate(comparison.arms):
        steps = loss_curve(arm.runs[0], AXIS) if arm.runs else None
        if steps is None or not len(steps.y):
            continue
        kept = np.unique(np.linspace(0, len(steps.y) - 1, min(POINTS, len(steps.y))).astype(int))
        values = smooth(steps.y, SMOOTHED)[kept]
        panel.plot(steps.x[kept], values, label=arm.name, **line(number))
        drawn += values.tolist()
    if not drawn:
        return []
    log_scale(panel, drawn)
    panel.set_xlabel(AXES[AXIS])
    panel.set_ylabel(f"{LOSS.label} in {LOSS.unit}")
    panel.set_title("training loss, first seed, smoothed over steps")
    legend(figure, panel)
    return save(figure, folder, "training_loss")
