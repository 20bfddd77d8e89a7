"""What the arms did with their machine over time (papers/004 figure 8) and where the time went."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from asr_ablations.comparison.result import Arm, Comparison
from asr_ablations.runs.utilisation import read_utilisation
from asr_ablations.tools.plotting import HATCHES, LINES, panels, save

PHASES = {
    "train": "#0072b2", "validate": "#e69f00", "decode": "#56b4e9", "checkpoint": "#009e73", "evaluate": "#aa4499",
    "setup": "#999999",
}  # fmt: skip
PERCENT = {"cpu_percent": ("CPU", "-", "#0072b2"), "gpu_percent": ("GPU, mean", "--", "#d55e00")}
MEMORY = {"host_memory_gib": ("host", "-", "#0072b2"), "gpu_memory_gib": ("GPU", "--", "#d55e00")}


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """utilisation: a column an arm (its first seed), a line a GPU, training left white; phases: a bar an arm."""
    return [*_over_time(comparison, folder), *_phases(comparison, folder)]


def _over_time(comparison: Comparison, folder: Path) -> list[Path]:
    samples = {arm.name: read_utilisation(arm.runs[0].folder) for arm in comparison.arms if arm.runs}
    samples = {name: rows for name, rows in samples.items() if len(rows) > 1}
    if not samples:
        return []
    power = any(row["gpu_power_watts"] is not None for rows in samples.values() for row in rows)
    rows = 3 if power else 2
    figure, axes = panels(len(samples), rows, size=(4.6, 2.1), sharex="col", sharey="row")
    for column, (name, found) in enumerate(samples.items()):
        own = axes[column :: len(samples)]
        own[0].set_title(name)
        _each_gpu(own[0], found)
        _lines(own[0], found, PERCENT)
        own[0].set_ylim(0, 103)
        _lines(own[1], found, MEMORY)
        if power:
            _lines(own[2], found, {"gpu_power_watts": ("GPU", "--", "#d55e00")})
        for panel in own:
            _shade(panel, found)
        own[-1].set_xlabel("time in seconds")
    for row, label in enumerate(("use in %", "memory in GiB", "power in W")[:rows]):
        axes[row * len(samples)].set_ylabel(label)
        axes[row * len(samples)].legend(fontsize=8, loc="lower right", frameon=True, framealpha=0.85, edgecolor="none")
    axes[1].set_ylim(bottom=0)
    figure.supxlabel("grey: validation; darker: checkpoints and the final evaluation", fontsize=8, color="#555555")
    return save(figure, folder, "utilisation")


def _lines(panel: Axes, rows: list[dict[str, Any]], columns: dict[str, tuple[str, str, str]]) -> None:
    for column, (label, style, colour) in columns.items():
        known = [(row["seconds"], row[column]) for row in rows if row[column] is not None]
        if known:
            panel.plot(*zip(*known, strict=True), style, color=colour, linewidth=1.3, label=label)


def _each_gpu(panel: Axes, rows: list[dict[str, Any]]) -> None:
    """A thin line a GPU, told apart by style and by how dark it is; the mean of several is the thick one."""
    for gpu in range(gpu_count(rows)):
        known = [(row["seconds"], row["gpu_percents"][gpu]) for row in rows if len(row["gpu_percents"]) > gpu]
        look: dict[str, Any] = {"linestyle": LINES[gpu % 8], "color": str(0.2 + 0.06 * (gpu % 8)), "linewidth": 0.7}
        panel.plot(*zip(*known, strict=True), label=f"GPU {gpu}", **look)


def gpu_count(rows: list[dict[str, Any]]) -> int:
    """GPUs that are worth a line of their own: none where there is one, which is the mean."""
    count = max((len(row["gpu_percents"]) for row in rows), default=0)
    return count if count > 1 else 0


def _shade(panel: Axes, rows: list[dict[str, Any]]) -> None:
    """Each sample tells of the time since the one before it."""
    for before, row in pairwise(rows):
        if row["phase"] != "train":
            grey = "#e6e6e6" if row["phase"] in ("validate", "decode") else "#c9c9c9"
            panel.axvspan(before["seconds"], row["seconds"], color=grey, linewidth=0, zorder=0)


def _phases(comparison: Comparison, folder: Path) -> list[Path]:
    arms = [arm for arm in comparison.arms if any(_seconds(arm, phase) for phase in PHASES)]
    if not arms:
        return []
    figure, (panel,) = panels(1, size=(6.4, 1.5 + 0.35 * len(arms)))
    left = np.zeros(len(arms))
    for (phase, colour), hatch in zip(PHASES.items(), HATCHES, strict=False):
        widths = np.array([_seconds(arm, phase) for arm in arms])
        look: dict[str, Any] = {"facecolor": colour + "bb", "edgecolor": "#222222", "linewidth": 0.6, "hatch": hatch}
        panel.barh(range(len(arms)), widths, left=left, height=0.6, label=phase, **look)
        left += widths
    panel.set_yticks(range(len(arms)), [arm.name for arm in arms])
    panel.invert_yaxis()
    panel.grid(False, axis="y")
    panel.set_xlabel("seconds a run, mean over seeds")
    figure.legend(*panel.get_legend_handles_labels(), loc="outside upper center", ncols=len(PHASES), fontsize=8.5)
    return save(figure, folder, "phases")


def _seconds(arm: Arm, phase: str) -> float:
    found = [run.summary.get("phase_seconds", {}).get(phase, 0.0) for run in arm.runs]
    return float(np.mean(found)) if found else 0.0
