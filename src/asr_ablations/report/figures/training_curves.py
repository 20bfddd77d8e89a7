"""Loss, error rates and gradients during training (Ambroszczyk2019 figures 2.1–2.8; Baunsgaard2020 figure 7)."""

from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from asr_ablations.comparison.derived_tables import observed
from asr_ablations.comparison.time_to_accuracy import times_to_accuracy
from asr_ablations.report.curves import AXES, Band, arm_band, band, gradient_curve, metric_names, smoothed_loss
from asr_ablations.report.training_report import TRAINING_LOSS
from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.metrics import LOSS, Metric, different_losses
from asr_verdicts.plotting import grid, legend, line, log_scale, marker, save, wrapped


class Line(NamedTuple):
    """A curve of one arm. arm: its number; diverged: whether the curve ends in a cross."""

    arm: int
    band: Band
    diverged: bool = False


def draw_by(metric: Metric, axis: str, comparison: Comparison, folder: Path) -> list[Path]:
    """Draw <metric>_by_<axis>: a panel per set with seeds as a band, on a logarithmic y axis if values allow it.

    The loss has more panels, for training: epoch means, each step of the first seed, and gradients over steps.
    """
    unit = f"{metric.label} in {metric.unit}"
    panels = {
        "training": (unit, _compute_bands(comparison, TRAINING_LOSS, axis) if metric is LOSS else []),
        **{
            f"validation, {column.split('/')[1]}": (unit, _compute_bands(comparison, column, axis))
            for column in metric_names(comparison, "validation/", f"/{metric.name}")
        },
        "training, first seed, smoothed over steps": (unit, _smooth_steps(comparison, axis) if metric is LOSS else []),
        "before clipping; first seed and diverged runs (×)": (
            "norm of the gradient",
            _read_gradients(comparison) if metric is LOSS and axis == "step" else [],
        ),
    }
    panels = {title: (label, lines) for title, (label, lines) in panels.items() if lines}
    if not panels:
        return []
    figure, axes = grid(len(panels))
    for panel, (title, (label, lines)) in zip(axes, panels.items(), strict=True):
        _draw_lines(panel, comparison, lines, 1 if label != unit else metric.scale)
        if title.startswith("validation"):
            _draw_targets(panel, comparison, metric)
        panel.set_xlabel(AXES[axis])
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        panel.set_ylabel(label)
        panel.set_title(wrapped(panel, title))
    legend(figure, axes[0])
    return save(figure, folder, f"{metric.name}_by_{axis}")


def _compute_bands(comparison: Comparison, column: str, axis: str) -> list[Line]:
    bands = [(number, arm_band(arm, column, axis)) for number, arm in enumerate(comparison.arms)]
    return [Line(number, spanned) for number, spanned in bands if spanned]


def _smooth_steps(comparison: Comparison, axis: str) -> list[Line]:
    """Return the training loss of every step; nothing if arms minimise different losses, which cannot share an axis."""
    if len(different_losses(comparison.runs)) > 1:
        return []
    bands = [
        (number, band([smoothed_loss(run, axis)])) for number, arm in enumerate(comparison.arms) for run in arm.runs[:1]
    ]
    return [Line(number, spanned) for number, spanned in bands if spanned]


def _read_gradients(comparison: Comparison) -> list[Line]:
    lines = [
        (number, band([gradient_curve(run)]), run.diverged_at is not None)
        for number, arm in enumerate(comparison.arms)
        for run in observed(arm)
    ]
    return [Line(number, spanned, diverged) for number, spanned, diverged in lines if spanned]


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
    """Draw a dotted line for each declared target of the metric."""
    declared = [time for time in times_to_accuracy(comparison) if not time.chosen and time.metric == metric.name]
    for target in {metric.scale * time.target for time in declared}:
        panel.axhline(target, color="#555555", linewidth=0.8, linestyle=(0, (1, 2)))
        options: Json = {
            "ha": "right",
            "va": "bottom",
            "fontsize": 7,
            "color": "#555555",
        }  # at the right edge, on the line
        panel.annotate(f"target {target:g}", (1, target), xycoords=("axes fraction", "data"), **options)
