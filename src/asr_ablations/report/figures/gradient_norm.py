"""The norm of the gradient over training: whether it explodes, and where (Ambroszczyk2019 §2.6)."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from asr_ablations.comparison.gradients import observed
from asr_ablations.comparison.result import Comparison
from asr_ablations.report.curves import AXES, Values
from asr_ablations.runs.reader import read_gradient_norms
from asr_ablations.runs.record import RunRecord
from asr_ablations.tools.files import Json
from asr_ablations.tools.plotting import legend, line, log_scale, panels, save

STRETCHES = 500
"""Points of a line at most, each the largest norm of as many steps as it stands for: no explosion falls between two."""


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """gradient_norm: a line for the first seed of each arm, and for each run that diverged, which ends in a cross."""
    figure, (panel,) = panels(1)
    drawn: list[float] = []
    for number, arm in enumerate(comparison.arms):
        name = arm.name
        for run in observed(arm):
            values = _line(panel, run, {**line(number), **({"label": name} if name else {})})
            name, drawn = ("" if values else name), [*drawn, *values]  # an arm has one entry in the legend
    if not drawn:
        return []
    log_scale(panel, drawn)
    panel.set_xlabel(AXES["step"])
    panel.set_ylabel("norm of the gradient")
    panel.set_title("before clipping; first seed and diverged runs (×)")
    legend(figure, panel)
    return save(figure, folder, "gradient_norm")


def _line(panel: Axes, run: RunRecord, options: Json) -> list[float]:
    """Draw one run; the values drawn."""
    steps, norms = largest_of_stretches(np.array(read_gradient_norms(run.folder)))
    if not len(norms):
        return []
    panel.plot(steps, norms, **{**options, "linewidth": 1.0})
    if run.diverged_at is not None:
        panel.plot([run.diverged_at], norms[-1:], "x", color=options["color"], markersize=9, markeredgewidth=2)
    return [float(norm) for norm in norms]


def largest_of_stretches(norms: Values) -> tuple[Values, Values]:
    """Step, from 1, and norm of the largest finite norm in each of STRETCHES stretches of equal length."""
    finite = np.where(np.isfinite(norms), norms, -np.inf)
    stretches = [part for part in np.array_split(np.arange(len(norms)), STRETCHES) if len(part)]
    at = np.array([part[np.argmax(finite[part])] for part in stretches], dtype=int)
    at = at[np.isfinite(finite[at])]
    return at + 1.0, norms[at]
