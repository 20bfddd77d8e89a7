"""Draw the figure `utilisation`: load, memory, power, throughput and step parts over time (Baunsgaard2020 §5.2)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby, pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asr_ablations.report.curves import SMOOTHED_SAMPLES, smooth, throughput_curve
from asr_ablations.runs.metrics_files import by_second, read_utilisation
from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.plotting import ACROSS, LINES, panels, wrapped
from asr_verdicts.record import Record

PERCENT = {"cpu_percent": ("CPU", "-", "#0072b2"), "gpu_percent": ("GPU, mean", "--", "#d55e00")}
MEMORY = {"host_memory_gib": ("host", "-", "#0072b2"), "gpu_memory_gib": ("GPU", "--", "#d55e00")}
POWER = {"gpu_power_watts": ("GPU", "--", "#d55e00")}

ROW = 1.5
"""Height of a row of panels in inches."""
WINDOW = 25.0
"""Maximum number of seconds in the batch panel, as in Baunsgaard2020 §5.2."""
BATCHES = 8
"""Maximum number of batches in the batch panel. More batches would be indistinguishable."""
SAMPLES = 3
"""Minimum number of samples per batch. With fewer samples, the parts of a batch would be invisible."""
PARTS = {"data": "#ffffff", "forward": "#cfe3f1", "backward": "#9fb9d6", "update": "#f3cfa2"}
"""Colours of the parts of a training step on the host. `backward` includes summing gradients over ranks."""


def draw_utilisation(comparison: Comparison) -> Figure | None:
    """Draw a column per arm (its first seed) and a row per recorded measure. The background is white during training.

    If runs have several samples per batch, the last row shows the parts of a few batches.
    """
    columns = {arm.name: _list_measures(arm.runs[0]) for arm in comparison.arms if arm.runs}
    columns = {name: measures for name, measures in columns.items() if measures}
    labels = max(columns.values(), key=len, default={})
    if not labels:
        return None
    across, below = min(ACROSS, len(columns)), len(labels)
    figure, axes = panels(across, -(-len(columns) // across) * below, height=ROW, sharey="row")
    without_legend = set(labels)
    for number, (name, measures) in enumerate(columns.items()):
        top = number // across * below * across + number % across
        column = axes[top : top + below * across : across]
        column[0].set_title(wrapped(column[0], name))
        for panel, label in zip(column, labels, strict=True):
            if number % across == 0:
                panel.set_ylabel(label)
            if label not in measures:
                continue
            measures[label](panel)
            if label in without_legend and panel.get_legend_handles_labels()[0]:
                panel.legend(fontsize=7, loc="lower right", frameon=True, framealpha=0.85, edgecolor="none")
                without_legend.remove(label)
    for panel in axes[::across]:
        panel.set_ylim(bottom=0)
    for empty in (panel for panel in axes if not panel.has_data()):
        figure.delaxes(empty)
    figure.supxlabel("time in seconds; grey: validation; darker: checkpoints and the final evaluation", fontsize=8)
    return figure


def _list_measures(run: Record) -> dict[str, Callable[[Axes], object]]:
    """Map each panel label of a run to its drawing function. The map is empty if there are fewer than two samples."""
    rows, speed, batches = by_second(read_utilisation(run.folder)), throughput_curve(run), window(run)
    if len(rows) < 2:
        return {}
    measures: dict[str, Callable[[Axes], object]] = {
        "use in %": lambda panel: _draw_use(rows, panel),
        "memory in GiB": lambda panel: _draw_lines(panel, rows, MEMORY),
    }
    if any(row["gpu_power_watts"] is not None for row in rows):
        measures["power in W"] = lambda panel: _draw_lines(panel, rows, POWER)
    if len(speed.y):
        measures["audio s per s"] = lambda panel: panel.plot(
            speed.x, smooth(speed.y, SMOOTHED_SAMPLES), color="#0072b2", linewidth=1.3
        )
    shaded: dict[str, Callable[[Axes], object]] = {
        label: partial(_draw_shaded, rows, draw) for label, draw in measures.items()
    }
    return {**shaded, "use in %, batches": partial(_draw_batches, batches)} if batches else shaded


def _draw_use(rows: Sequence[Json], panel: Axes) -> None:
    """Draw the processor and GPU load. If there are several GPUs, each also gets a thin line."""
    gpus = max(len(row["gpu_percents"]) for row in rows)
    for gpu in range(gpus if gpus > 1 else 0):
        points = [(row["seconds"], row["gpu_percents"][gpu]) for row in rows if len(row["gpu_percents"]) > gpu]
        shade = str(0.2 + 0.06 * (gpu % 8))
        panel.plot(*zip(*points, strict=True), label=f"GPU {gpu}", linestyle=LINES[gpu % 8], color=shade, linewidth=0.7)
    _draw_lines(panel, rows, PERCENT)
    panel.set_ylim(0, 103)


def _draw_shaded(rows: Sequence[Json], draw: Callable[[Axes], object], panel: Axes) -> None:
    """Draw a panel with a grey background outside training. A sample covers the time since the previous sample."""
    draw(panel)
    for before, row in pairwise(rows):
        if row["phase"] != "train":
            grey = "#e6e6e6" if row["phase"] in ("validate", "decode") else "#c9c9c9"
            panel.axvspan(before["seconds"], row["seconds"], color=grey, linewidth=0, zorder=0)


def _draw_batches(rows: Sequence[Json], panel: Axes) -> None:
    """Draw the load during a few batches, with a coloured span for each part of a step."""
    _draw_use(rows, panel)
    spans = [(row["part"], before["seconds"], row["seconds"]) for before, row in pairwise(rows)]
    unnamed = set(PARTS)
    for part, group in groupby(spans, key=lambda span: span[0]):
        ends = [(begin, end) for _, begin, end in group]
        look: Json = {"color": PARTS.get(part, "#e6e6e6"), "linewidth": 0, "zorder": 0}
        panel.axvspan(ends[0][0], ends[-1][1], label=part if part in unnamed else "", **look)
        unnamed.discard(part)


def _draw_lines(panel: Axes, rows: Sequence[Json], columns: Mapping[str, tuple[str, str, str]]) -> None:
    """Draw a line for each column that has values, with its label, style and colour."""
    for column, (label, style, colour) in columns.items():
        points = [(row["seconds"], row[column]) for row in rows if row[column] is not None]
        if points:
            panel.plot(*zip(*points, strict=True), style, color=colour, linewidth=1.3, label=label)


def window(run: Record) -> list[Json]:
    """Return the samples during a few batches in the middle of training, or none if batches have too few samples."""
    rows = read_utilisation(run.folder)
    trained = [row["seconds"] for row in rows if row["phase"] == "train" and row["part"]]
    steps, seconds = run.summary.steps, run.summary.train_batch_seconds
    if len(trained) < 2 or not steps or not seconds:
        return []
    batch = seconds / steps
    if batch < SAMPLES * np.median(np.diff(trained)):
        return []
    middle, half = trained[len(trained) // 2], min(WINDOW, BATCHES * batch) / 2
    return [row for row in rows if middle - half <= row["seconds"] <= middle + half]
