"""The phases of single batches in the use of the machine (Baunsgaard2020 §5.2, figure 8)."""

from collections.abc import Sequence
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from asr_ablations.comparison.result import Comparison
from asr_ablations.report.figures.utilisation import PERCENT, draw_each_gpu, draw_lines
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.utilisation import read_utilisation
from asr_ablations.tools.files import Json
from asr_ablations.tools.plotting import panels, save, whole_legend

WINDOW = 25.0
"""Seconds that the paper's figure shows."""
BATCHES = 8
"""Batches that a reader can still tell apart: the window is shorter where batches are."""
SAMPLES = 3
"""Samples per batch without which its phases cannot be seen; with fewer there is no figure."""
PARTS = {"data": "#ffffff", "forward": "#cfe3f1", "backward": "#9fb9d6", "update": "#f3cfa2"}
"""What the host does in a training step, in its order: gradients of several ranks are added up in `backward`."""


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """batch_phases: a column per arm (its first seed), for runs that were sampled several times per batch."""
    windows = {arm.name: window(arm.runs[0]) for arm in comparison.arms if arm.runs}
    shown = {name: rows for name, rows in windows.items() if rows}
    if not shown:
        return []
    figure, axes = panels(len(shown), size=(4.6, 2.6), sharey="row")
    for panel, (name, rows) in zip(axes, shown.items(), strict=True):
        _shade(panel, rows)
        draw_each_gpu(panel, rows)
        draw_lines(panel, rows, PERCENT)
        panel.set_title(name)
        panel.set_ylim(0, 103)
        panel.set_xlabel("time in seconds")
    axes[0].set_ylabel("use in %")
    spans = [Patch(facecolor=colour, edgecolor="#999999", label=part) for part, colour in PARTS.items()]
    handles = [*axes[0].get_legend_handles_labels()[0], *spans]
    whole_legend(figure, handles, [str(handle.get_label()) for handle in handles], fontsize=7.5)
    return save(figure, folder, "batch_phases")


def window(run: RunRecord) -> list[Json]:
    """The samples of a few batches in the middle of training; empty where there are too few samples per batch."""
    rows = read_utilisation(run.folder)
    trained = [row["seconds"] for row in rows if row["phase"] == "train" and row["part"]]
    steps, seconds = run.summary.get("steps"), run.summary.get("train_batch_seconds")
    if len(trained) < 2 or not steps or not seconds:
        return []
    batch = seconds / steps
    if batch < SAMPLES * np.median(np.diff(trained)):
        return []
    middle, half = trained[len(trained) // 2], min(WINDOW, BATCHES * batch) / 2
    return [row for row in rows if middle - half <= row["seconds"] <= middle + half]


def _shade(panel: Axes, rows: Sequence[Json]) -> None:
    """A span per part of a step. A sample describes the time since the previous one."""
    spans = [(row["part"], before["seconds"], row["seconds"]) for before, row in pairwise(rows)]
    for part, group in groupby(spans, key=lambda span: span[0]):
        ends = [(begin, end) for _, begin, end in group]
        panel.axvspan(ends[0][0], ends[-1][1], color=PARTS.get(part, "#e6e6e6"), linewidth=0, zorder=0)
