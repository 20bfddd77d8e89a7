"""Draw the figures of a comparison. This module draws those on training: curves, time to accuracy, scaling and search.

The figures follow Ambroszczyk2019 figures 2.1–2.8 and §2.9, and Baunsgaard2020 figure 7 and §5.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from asr_ablations.comparison.derived_tables import Hyperparameter, hyperparameters, observed
from asr_ablations.comparison.time_to_accuracy import TimeToAccuracy, times_to_accuracy
from asr_ablations.comparison.training_times import scaling
from asr_ablations.report.curves import AXES, Band, band, curve, gradient_curve, metric_names, smoothed_loss
from asr_ablations.report.training_report import TRAINING_LOSS
from asr_ablations.report.utilisation import draw_utilisation
from asr_verdicts.comparison import Comparison
from asr_verdicts.errors import choices
from asr_verdicts.files import Json
from asr_verdicts.metrics import CER, CER_LONGER, LOSS, WER, Metric, different_losses
from asr_verdicts.plotting import (
    COLOURS,
    draw_strip,
    grid,
    legend,
    line,
    log_scale,
    marker,
    plain_numbers,
    wrapped,
)
from asr_verdicts.report import figures as of_verdicts
from asr_verdicts.report.figures import Draw

DRAWN_AXES, DRAWN_METRICS = ("epoch", "step", "time"), (WER, CER, LOSS, CER_LONGER)
MEASURES = {"seconds": "seconds", "audio_hours": "hours of audio", "epochs": "epochs"}
GRADIENTS = "before clipping; first seed and diverged runs (×)"
"""Title of the panel with gradient norms."""
FEW = 6
"""If a hyperparameter has at most this many values, each value gets a tick."""


class Line(NamedTuple):
    """A curve of an arm. arm: index of the arm. diverged: whether to end the curve with a cross."""

    arm: int
    band: Band
    diverged: bool = False


def draw_by(metric: Metric, axis: str, comparison: Comparison) -> Figure | None:
    """Draw the figure <metric>_by_<axis>: a panel per validation set, with a band per arm that spans its seeds.

    The y axis is logarithmic if the values allow it. The loss also has training panels: epoch means, every step of the
    first seed, and, if the axis is steps, the gradient norm.
    """
    panels = {
        f"validation, {column.split('/')[1]}": _compute_bands(comparison, column, axis)
        for column in metric_names(comparison, "validation/", f"/{metric.name}")
    }
    if metric is LOSS:
        steps = "training, first seed, smoothed over steps"
        panels = {"training": _compute_bands(comparison, TRAINING_LOSS, axis), **panels}
        panels[steps] = _smooth_steps(comparison, axis)
        panels[GRADIENTS] = _read_gradients(comparison) if axis == "step" else []
    panels = {title: lines for title, lines in panels.items() if lines}
    if not panels:
        return None
    figure, axes = grid(len(panels))
    for panel, (title, lines) in zip(axes, panels.items(), strict=True):
        _draw_lines(panel, comparison, lines, 1 if title == GRADIENTS else metric.scale)
        if title.startswith("validation"):
            _draw_targets(panel, comparison, metric)
        panel.set_xlabel(AXES[axis])
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        panel.set_ylabel("norm of the gradient" if title == GRADIENTS else f"{metric.label} in {metric.unit}")
        panel.set_title(wrapped(panel, title))
    legend(figure, axes[0])
    return figure


def _compute_bands(comparison: Comparison, column: str, axis: str) -> list[Line]:
    curves = [[curve(run, column, axis) for run in arm.runs] for arm in comparison.arms]
    return [Line(number, spanned) for number, of_arm in enumerate(curves) if (spanned := band(of_arm))]


def _smooth_steps(comparison: Comparison, axis: str) -> list[Line]:
    """Return the training loss of every step for each arm. Return an empty list if arms minimise different losses."""
    if len(different_losses(comparison.runs)) > 1:
        return []
    runs = [(number, run) for number, arm in enumerate(comparison.arms) for run in arm.runs[:1]]
    return [Line(number, spanned) for number, run in runs if (spanned := band([smoothed_loss(run, axis)]))]


def _read_gradients(comparison: Comparison) -> list[Line]:
    runs = [(number, run) for number, arm in enumerate(comparison.arms) for run in observed(arm)]
    return [
        Line(number, spanned, run.diverged_at is not None)
        for number, run in runs
        if (spanned := band([gradient_curve(run)]))
    ]


def _draw_lines(panel: Axes, comparison: Comparison, lines: list[Line], scale: float) -> None:
    drawn: list[float] = []
    for number, spanned, diverged in lines:
        runs = len(comparison.arms[number].runs)
        label = comparison.arms[number].name + (f" ({runs} seeds)" if runs > 1 else "")
        options = {**line(number), **marker(number), "markevery": max(1, len(spanned.x) // 10)}
        mean, low, high = (scale * values for values in (spanned.mean, spanned.low, spanned.high))
        panel.plot(spanned.x, mean, label=label, **options)
        panel.fill_between(spanned.x, low, high, color=options["color"], alpha=0.15, linewidth=0)
        if diverged:
            panel.plot(spanned.x[-1:], mean[-1:], "x", color=options["color"], markersize=9, markeredgewidth=2)
        drawn += [*low, *high]
    log_scale(panel, drawn)


def _draw_targets(panel: Axes, comparison: Comparison, metric: Metric) -> None:
    """Draw a dotted line at each declared target of the metric."""
    declared = [time for time in times_to_accuracy(comparison) if not time.chosen and time.metric == metric.name]
    for target in {metric.scale * time.target for time in declared}:
        panel.axhline(target, color="#555555", linewidth=0.8, linestyle=(0, (1, 2)))
        at_the_right_edge: Json = {"ha": "right", "va": "bottom", "fontsize": 7, "color": "#555555"}
        panel.annotate(f"target {target:g}", (1, target), xycoords=("axes fraction", "data"), **at_the_right_edge)


def draw_time_to_accuracy(comparison: Comparison) -> Figure | None:
    """Draw the cost of reaching the targets: a panel per measure, a dot per seed, and a line at the mean over seeds.

    If a seed missed a target, the line is omitted, because the mean would be too optimistic, and the figure shows how
    many seeds reached the target.
    """
    times, arms = times_to_accuracy(comparison), comparison.arms
    measures = [measure for measure in MEASURES if any(getattr(time, measure) is not None for time in times)]
    if not measures:
        return None
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
    return figure


def _draw_times(panel: Axes, x: float, width: float, times: Sequence[TimeToAccuracy], measure: str, look: Json) -> None:
    values = [value for time in times if (value := getattr(time, measure)) is not None]
    draw_strip(panel, x, width, values, look, mean=len(values) == len(times))
    if len(values) == len(times):
        return
    reached = sum(time.steps is not None for time in times)
    text = "NA" if reached == len(times) else f"{reached}/{len(times)}"  # NA: the time is unknown
    place: Json = {"xytext": (0, 4), "textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 7}
    panel.annotate(text, (x, max(values, default=0)), **place)


def draw_scaling(comparison: Comparison) -> Figure | None:
    """Draw minutes per epoch, speed-up over the smallest number of processes and, if known, the price of an epoch.

    Each series has a line. Nothing is drawn if all runs have the same number of processes.
    """
    rows = scaling(comparison.arms)
    if not rows:
        return None
    counts = sorted({row.processes for row in rows})
    labels = ["minutes per epoch", f"speed-up over {counts[0]}", "price of an epoch"]
    figure, axes = grid(3 if any(row.price is not None for row in rows) else 2)
    for number, name in enumerate(dict.fromkeys(row.series for row in rows)):
        series = [row for row in rows if row.series == name]
        look = {**line(number), **marker(number), "capsize": 3, "label": name or "measured"}
        minutes = [(row.processes, row.epoch_seconds / 60, *[(row.deviation or 0.0) / 60] * 2) for row in series]
        ratios = [(row.processes, row.speed_up.value, row.speed_up.low, row.speed_up.high) for row in series]
        speed_ups = [(x, y, y - (low or y), (high or y) - y) for x, y, low, high in ratios]  # None means no interval
        prices = [(row.processes, row.price, 0.0, 0.0) for row in series if row.price is not None]
        for panel, points in zip(axes, (minutes, speed_ups, prices), strict=False):
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
    return figure


def draw_search(comparison: Comparison) -> Figure | None:
    """Draw the runs of a search: a panel per hyperparameter, a point per run, and a star for the best run.

    An axis is logarithmic if the search sampled the hyperparameter on a logarithmic scale.
    """
    tried = hyperparameters(comparison)
    if not tried:
        return None
    figure, axes = grid(len(tried), sharey=True)
    for panel, hyperparameter in zip(axes, tried, strict=True):
        _draw_panel(panel, hyperparameter)
    figure.supylabel(f"best validation {WER.label}, {WER.unit}", fontsize=8)
    legend(figure, axes[0])
    return figure


def _draw_panel(panel: Axes, tried: Hyperparameter) -> None:
    rates = [WER.scale * rate for rate in tried.rates]
    panel.plot(tried.values, rates, **marker(0), linestyle="", label="a run")
    star: Json = {"marker": "*", "markersize": 12, "linestyle": "", "color": COLOURS[1]}
    best = rates[tried.best]
    panel.plot([tried.values[tried.best]], [best], label=f"best: {best:.1f} %", **star)
    panel.set_xlabel(tried.key)
    panel.margins(x=0.1, y=0.12)
    different = sorted({value for value in tried.values if isinstance(value, float)})
    if tried.logarithmic:
        panel.set_xscale("log")
        plain_numbers(panel.xaxis, (1, 3))
    elif 0 < len(different) <= FEW:
        panel.set_xticks(different)


FIGURES: dict[str, Draw] = {
    "differences": of_verdicts.draw_differences,
    "seeds": of_verdicts.draw_seeds,
    **{f"{kind.name}_by_{axis}": partial(draw_by, kind, axis) for axis in DRAWN_AXES for kind in DRAWN_METRICS},
    "looks": of_verdicts.draw_looks,
    "time_to_accuracy": draw_time_to_accuracy,
    "scaling": draw_scaling,
    "utilisation": draw_utilisation,
    "search": draw_search,
}
"""Drawing functions by figure name. The most important figures come first."""


def check_figures(names: Iterable[str]) -> None:
    """Raise UsageError for an unknown figure name. The message suggests the most similar name."""
    for name in names:
        if name not in FIGURES:
            nearest = [f"{near} (the nearest), or one of " for near in get_close_matches(name, FIGURES, 1, 0.5)]
            raise choices("figures", name, "".join([*nearest, ", ".join(FIGURES)]))


def write_figures(
    comparison: Comparison, folder: Path, names: Iterable[str] = (), kinds: Iterable[str] = ()
) -> list[Path]:
    """Write figures, and return the paths of their files. Figures for which the runs lack data are omitted.

    kinds: formats of the files, by default PNG, SVG and PDF
    names: figures to draw. By default, draw all figures, but curves of the longer CER only if it is the compared
      metric.
    """
    rare = () if comparison.metric == CER_LONGER.name else tuple(f"{CER_LONGER.name}_by_{axis}" for axis in DRAWN_AXES)
    wanted = list(names) or [name for name in FIGURES if name not in rare]
    return of_verdicts.write_figures(comparison, folder, {name: FIGURES[name] for name in wanted}, kinds)
