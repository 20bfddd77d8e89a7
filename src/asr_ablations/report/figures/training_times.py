"""Figures of time: time to accuracy, scaling over GPUs, and the phases of a batch (Baunsgaard2020 §5)."""

from collections.abc import Sequence
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from asr_ablations.comparison.time_to_accuracy import times_to_accuracy
from asr_ablations.comparison.training_times import Scaling, scaling
from asr_ablations.comparison.validation_costs import Ratio, TimeToAccuracy
from asr_ablations.report.figures.utilisation import PERCENT, draw_each_gpu, draw_lines
from asr_ablations.runs.metrics_files import read_utilisation
from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.metrics import find_metric
from asr_verdicts.plotting import bar, grid, legend, line, marker, save, whole_legend, wrapped
from asr_verdicts.record import Record
from asr_verdicts.statistics.distributions import t_bound

MEASURES = {"seconds": "seconds", "audio_hours": "hours of audio", "epochs": "epochs"}


def draw_time_to_accuracy(comparison: Comparison, folder: Path) -> list[Path]:
    """time_to_accuracy: a panel per measure, a dot per seed; a bar for the mean over seeds, with its 95 % interval,
    only where every seed reached the target: the mean of those that did would flatter.
    """
    times = times_to_accuracy(comparison)
    measures = [measure for measure in MEASURES if _known(times, measure)]
    if not measures:
        return []
    targets = sorted({(time.metric, time.target) for time in times}, key=lambda target: (target[0], -target[1]))
    figure, axes = grid(len(measures))
    width = 0.8 / len(comparison.arms)
    for panel, measure in zip(axes, measures, strict=True):
        for number, arm in enumerate(comparison.arms):
            for place, target in enumerate(targets):
                own = [time for time in times if time.arm == arm.name and (time.metric, time.target) == target]
                x = place - 0.4 + width * (number + 0.5)
                label = arm.name if place == 0 else ""
                _draw_times(panel, x, width, own, measure, {**bar(number), "label": label})
        names = [find_metric(metric).target_text(target) for metric, target in targets]
        panel.set_xticks(range(len(targets)), names)
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
    """The bar, the dots and, where a seed is missing, how many arrived."""
    known = _known(times, measure)
    if known and len(known) == len(times):
        whisker = {"linewidth": 1, "capsize": 3}
        panel.bar(x, float(np.mean(known)), width, yerr=_half_width(known), error_kw=whisker, **look)
    else:
        panel.bar(x, 0, width, **{**look, "linewidth": 0})  # for the legend alone
        _annotate(panel, x, known, times)
    panel.plot([x] * len(known), known, "o", color="black", markersize=2.5)


def _half_width(values: Sequence[float]) -> float | None:
    """Half of the 95 % interval of the mean, by Student's t; None for a single value."""
    if len(values) < 2:
        return None
    return float(t_bound(0.025, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))


def _known(times: Sequence[TimeToAccuracy], measure: str) -> list[float]:
    return [value for time in times if (value := getattr(time, measure)) is not None]


def _annotate(panel: Axes, x: float, known: Sequence[float], times: Sequence[TimeToAccuracy]) -> None:
    """Say how many seeds reached the target; NA where they did, but when was not recorded."""
    reached = sum(time.steps is not None for time in times)
    text = "NA" if reached == len(times) else f"{reached}/{len(times)}"
    panel.annotate(
        text, (x, max(known, default=0)), xytext=(0, 4), textcoords="offset points", ha="center", va="bottom",
        fontsize=7,
    )  # fmt: skip


def draw_scaling(comparison: Comparison, folder: Path) -> list[Path]:
    """scaling: minutes per epoch and the speed-up over the fewest processes, a line per series; the price of an epoch
    where it is known. Nothing where all runs have the same number.
    """
    rows = scaling(comparison.arms)
    if not rows:
        return []
    priced = [row for row in rows if row.price is not None]
    figure, axes = grid(3 if priced else 2)
    minutes, speed_up = axes[:2]
    for number, name in enumerate(dict.fromkeys(row.series for row in rows)):
        own = [row for row in rows if row.series == name]
        counts = [row.processes for row in own]
        look = {**line(number), **marker(number), "capsize": 3, "label": name or "measured"}
        deviations = [(row.deviation or 0.0) / 60 for row in own]
        minutes.errorbar(counts, [row.epoch_seconds / 60 for row in own], yerr=deviations, **look)
        speed_up.errorbar(counts, [row.speed_up.value for row in own], yerr=_sides([r.speed_up for r in own]), **look)
        if any(row in priced for row in own):
            known = [row for row in own if row.price is not None]
            axes[2].errorbar([row.processes for row in known], [row.price or 0.0 for row in known], **look)
    _ideal(speed_up, rows)
    labels = ["minutes per epoch", f"speed-up over {min(row.processes for row in rows)}", "price of an epoch"]
    for panel, label in zip(axes, labels, strict=False):
        panel.set_xticks(sorted({row.processes for row in rows}))
        panel.set_xlabel("GPUs" if all(row.device == "GPU" for row in rows) else "processes that train together")
        panel.set_ylabel(label)
        panel.margins(y=0.1)
        panel.set_ylim(bottom=0)
    legend(figure, speed_up)
    return save(figure, folder, "scaling")


def _ideal(panel: Axes, rows: Sequence[Scaling]) -> None:
    counts = sorted({row.processes for row in rows})
    panel.plot(counts, [count / counts[0] for count in counts], ":", color="#777777", label="ideal")


def _sides(ratios: Sequence[Ratio]) -> list[list[float]]:
    """The lengths of the intervals below and above; 0 without an interval."""
    below = [0.0 if ratio.low is None else ratio.value - ratio.low for ratio in ratios]
    above = [0.0 if ratio.high is None else ratio.high - ratio.value for ratio in ratios]
    return [below, above]


WINDOW = 25.0
"""Seconds that the paper's figure shows."""
BATCHES = 8
"""Batches that a reader can still tell apart: the window is shorter where batches are."""
SAMPLES = 3
"""Samples per batch without which its phases cannot be seen; with fewer there is no figure."""
PARTS = {"data": "#ffffff", "forward": "#cfe3f1", "backward": "#9fb9d6", "update": "#f3cfa2"}
"""The parts of a training step on the host, in order: gradients of several ranks are added up in `backward`."""


def draw_batch_phases(comparison: Comparison, folder: Path) -> list[Path]:
    """batch_phases: a column per arm (its first seed), for runs that were sampled several times per batch."""
    windows = {arm.name: window(arm.runs[0]) for arm in comparison.arms if arm.runs}
    shown = {name: rows for name, rows in windows.items() if rows}
    if not shown:
        return []
    figure, axes = grid(len(shown), sharey=True)
    for panel, (name, rows) in zip(axes, shown.items(), strict=True):
        _shade(panel, rows)
        draw_each_gpu(panel, rows)
        draw_lines(panel, rows, PERCENT)
        panel.set_title(wrapped(panel, name))
        panel.set_ylim(0, 103)
    figure.supxlabel("time in seconds", fontsize=8)
    figure.supylabel("use in %", fontsize=8)
    spans = [Patch(facecolor=colour, edgecolor="#999999", label=part) for part, colour in PARTS.items()]
    handles = [*axes[0].get_legend_handles_labels()[0], *spans]
    whole_legend(figure, handles, [str(handle.get_label()) for handle in handles])
    return save(figure, folder, "batch_phases")


def window(run: Record) -> list[Json]:
    """The samples of a few batches in the middle of training; empty where there are too few samples per batch."""
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


def _shade(panel: Axes, rows: Sequence[Json]) -> None:
    """A span per part of a step. A sample describes the time since the previous one."""
    spans = [(row["part"], before["seconds"], row["seconds"]) for before, row in pairwise(rows)]
    for part, group in groupby(spans, key=lambda span: span[0]):
        ends = [(begin, end) for _, begin, end in group]
        panel.axvspan(ends[0][0], ends[-1][1], color=PARTS.get(part, "#e6e6e6"), linewidth=0, zorder=0)
