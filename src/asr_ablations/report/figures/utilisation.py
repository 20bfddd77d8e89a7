"""Utilisation of the machine over time (Baunsgaard2020 figure 8), and where the time went."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from asr_ablations.runs.metrics_files import by_second, read_utilisation
from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.plotting import ACROSS, HATCHES, LINES, panels, save, whole_legend, width_for, wrapped

PHASES = {
    "train": "#0072b2", "validate": "#e69f00", "decode": "#56b4e9", "checkpoint": "#009e73", "evaluate": "#aa4499",
    "setup": "#999999",
}  # fmt: skip
PERCENT = {"cpu_percent": ("CPU", "-", "#0072b2"), "gpu_percent": ("GPU, mean", "--", "#d55e00")}
MEMORY = {"host_memory_gib": ("host", "-", "#0072b2"), "gpu_memory_gib": ("GPU", "--", "#d55e00")}
POWER = {"gpu_power_watts": ("GPU", "--", "#d55e00")}


ROW = 1.5
"""Height of a row of panels, inches."""


def draw_utilisation(comparison: Comparison, folder: Path) -> list[Path]:
    """utilisation: a column per arm (its first seed), further arms below; a line per GPU, training left white."""
    read = {arm.name: by_second(read_utilisation(arm.runs[0].folder)) for arm in comparison.arms if arm.runs}
    samples = {name: rows for name, rows in read.items() if len(rows) > 1}
    if not samples:
        return []
    power = any(row["gpu_power_watts"] is not None for rows in samples.values() for row in rows)
    labels = ("use in %", "memory in GiB", "power in W")[: 3 if power else 2]
    across, below = min(ACROSS, len(samples)), len(labels)
    blocks = -(-len(samples) // across)
    figure, axes = panels(across, blocks * below, height=ROW, sharex="col", sharey="row")
    places = [(block, column) for block in range(blocks) for column in range(across)]
    columns = [axes[block * below * across + column :: across][:below] for block, column in places]
    for column, (name, rows) in zip(columns, samples.items(), strict=False):
        _column(column, name, rows, power)
    for left in columns[::across]:
        for panel, label in zip(left, labels, strict=True):
            panel.set_ylabel(label)
        left[1].set_ylim(bottom=0)
    for empty in (panel for column in columns[len(samples) :] for panel in column):
        figure.delaxes(empty)
    for panel in columns[0]:
        panel.legend(fontsize=7, loc="lower right", frameon=True, framealpha=0.85, edgecolor="none")
    figure.supxlabel("time in seconds; grey: validation; darker: checkpoints and the final evaluation", fontsize=8)
    return save(figure, folder, "utilisation")


def _column(column: Sequence[Axes], name: str, rows: Sequence[Json], power: bool) -> None:
    """The panels of an arm: use, memory and, where it is known, power."""
    column[0].set_title(wrapped(column[0], name))
    draw_each_gpu(column[0], rows)
    draw_lines(column[0], rows, PERCENT)
    column[0].set_ylim(0, 103)
    draw_lines(column[1], rows, MEMORY)
    if power:
        draw_lines(column[2], rows, POWER)
    for panel in column:
        _shade(panel, rows)
    column[-1].tick_params(labelbottom=True)


def draw_lines(panel: Axes, rows: Sequence[Json], columns: Mapping[str, tuple[str, str, str]]) -> None:
    """A line per column that has values, with its label, style and colour."""
    for column, (label, style, colour) in columns.items():
        known = [(row["seconds"], row[column]) for row in rows if row[column] is not None]
        if known:
            panel.plot(*zip(*known, strict=True), style, color=colour, linewidth=1.3, label=label)


def draw_each_gpu(panel: Axes, rows: Sequence[Json]) -> None:
    """Thin lines, distinguished by style and shade, a line per GPU; the mean of several GPUs is the thick line."""
    for gpu in range(gpu_lines(rows)):
        known = [row for row in rows if len(row["gpu_percents"]) > gpu]
        seconds, percents = [row["seconds"] for row in known], [row["gpu_percents"][gpu] for row in known]
        shade = str(0.2 + 0.06 * (gpu % 8))
        panel.plot(seconds, percents, label=f"GPU {gpu}", linestyle=LINES[gpu % 8], color=shade, linewidth=0.7)


def gpu_lines(rows: Sequence[Json]) -> int:
    """Number of GPUs with a line of their own: 0 for a single GPU, which the mean shows."""
    count = max((len(row["gpu_percents"]) for row in rows), default=0)
    return count if count > 1 else 0


def _shade(panel: Axes, rows: Sequence[Json]) -> None:
    """Grey spans outside training. A sample describes the time since the previous one."""
    for before, row in pairwise(rows):
        if row["phase"] != "train":
            grey = "#e6e6e6" if row["phase"] in ("validate", "decode") else "#c9c9c9"
            panel.axvspan(before["seconds"], row["seconds"], color=grey, linewidth=0, zorder=0)


def draw_phases(comparison: Comparison, folder: Path) -> list[Path]:
    """phases: a bar per arm."""
    arms = [arm for arm in comparison.arms if any(_seconds(arm, phase) for phase in PHASES)]
    if not arms:
        return []
    names = [arm.name for arm in arms]
    figure, (panel,) = panels(1, width=width_for(names), height=1.2 + 0.25 * len(arms))
    left = np.zeros(len(arms))
    for (phase, colour), hatch in zip(PHASES.items(), HATCHES, strict=False):
        widths = np.array([_seconds(arm, phase) for arm in arms])
        panel.barh(
            range(len(arms)), widths, left=left, height=0.6, label=phase,
            facecolor=colour + "bb", edgecolor="#222222", linewidth=0.6, hatch=hatch,
        )  # fmt: skip
        left += widths
    panel.set_yticks(range(len(arms)), names)
    panel.invert_yaxis()
    panel.grid(False, axis="y")
    panel.set_xlabel("seconds per run, mean over seeds")
    whole_legend(figure, *panel.get_legend_handles_labels())
    return save(figure, folder, "phases")


def _seconds(arm: Arm, phase: str) -> float:
    """Mean over the seeds; 0 for a phase that was not recorded."""
    seconds = [(run.summary.phase_seconds or {}).get(phase, 0.0) for run in arm.runs]
    return float(np.mean(seconds)) if seconds else 0.0
