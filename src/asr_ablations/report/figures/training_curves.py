"""Loss and error rates during training, seeds as a band (Ambroszczyk2019 figures 2.1–2.8; Baunsgaard2020 figure 7)."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from asr_ablations.comparison.derived_tables import observed
from asr_ablations.comparison.time_to_accuracy import times_to_accuracy
from asr_ablations.report.curves import AXES, Values, arm_band, loss_curve, metric_names, smooth, throughput_curve
from asr_ablations.report.training_columns import TRAINING_LOSS
from asr_ablations.runs.reader import read_gradient_norms
from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.metrics import LOSS, Metric, different_losses
from asr_verdicts.plotting import bar, grid, legend, line, log_scale, marker, panels, save, wrapped
from asr_verdicts.record import Record


def draw_by(metric: Metric, axis: str, comparison: Comparison, folder: Path) -> list[Path]:
    """<metric>_by_<axis>: a panel per set, the losses of training among them; a logarithmic y axis where the values
    allow it.
    """
    training = metric_names(comparison, TRAINING_LOSS) if metric is LOSS else []
    columns = [*training, *metric_names(comparison, "validation/", f"/{metric.name}")]
    shown = [column for column in columns if any(arm_band(arm, column, axis) for arm in comparison.arms)]
    if not shown:
        return []
    figure, axes = grid(len(shown))
    for panel, column in zip(axes, shown, strict=True):
        _panel(comparison, panel, metric, column, axis)
    legend(figure, axes[0])
    return save(figure, folder, f"{metric.name}_by_{axis}")


def _panel(comparison: Comparison, panel: Axes, metric: Metric, column: str, axis: str) -> None:
    scale = metric.scale
    drawn: list[float] = []
    for number, arm in enumerate(comparison.arms):
        band = arm_band(arm, column, axis)
        if band is None:
            continue
        seeds = f" ({len(arm.runs)} seeds)" if len(arm.runs) > 1 else ""
        options = {**line(number), **marker(number), "markevery": max(1, len(band.x) // 10)}
        panel.plot(band.x, scale * band.mean, label=arm.name + seeds, **options)
        colour = {"color": options["color"], "alpha": 0.15, "linewidth": 0}
        panel.fill_between(band.x, scale * band.low, scale * band.high, **colour)
        drawn += [*(scale * band.low), *(scale * band.high)]
    log_scale(panel, drawn)
    declared = [time for time in times_to_accuracy(comparison) if not time.chosen]
    for target in {time.target for time in declared if column.endswith(f"/{time.metric}")}:
        panel.axhline(scale * target, color="#555555", linewidth=0.8, linestyle=(0, (1, 2)))
        place = (1, scale * target)  # at the right edge, on the line
        options = {"ha": "right", "va": "bottom", "fontsize": 7, "color": "#555555"}
        panel.annotate(f"target {scale * target:g}", place, xycoords=("axes fraction", "data"), **options)
    panel.set_xlabel(AXES[axis])
    panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    panel.set_ylabel(f"{metric.label} in {metric.unit}")
    panel.set_title("training" if column.startswith("train/") else "validation, " + column.split("/")[1])


SMOOTHED = 10
"""Standard deviation of the Gaussian filter in steps, the paper's."""
POINTS = 2000
"""Largest number of points of a line: a run may have 100,000 steps."""
AXIS = "time"


def draw_training_loss(comparison: Comparison, folder: Path) -> list[Path]:
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
    panel.set_title(wrapped(panel, "training loss, first seed, smoothed over steps"))
    legend(figure, panel)
    return save(figure, folder, "training_loss")


STRETCHES = 500
"""Points of a line at most, each the largest norm of as many steps as it stands for: no explosion falls between two."""


def draw_gradient_norm(comparison: Comparison, folder: Path) -> list[Path]:
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
    panel.set_title(wrapped(panel, "before clipping; first seed and diverged runs (×)"))
    legend(figure, panel)
    return save(figure, folder, "gradient_norm")


def _line(panel: Axes, run: Record, options: Json) -> list[float]:
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


SMOOTHED_STEPS = 3
"""Standard deviation of the filter over samples, which are about a second apart."""
LETTERS = 30
"""Of the names of all arms, which fit below a panel side by side."""


def draw_throughput(comparison: Comparison, folder: Path) -> list[Path]:
    """throughput: seconds of audio per second over time, validation and checkpoints included; and means in training."""
    rates = [[r for run in arm.runs if (r := run.summary.audio_hours_per_second)] for arm in comparison.arms]
    if not any(rates):
        return []
    figure, (over_time, means) = panels(2)
    for number, (arm, of_arm) in enumerate(zip(comparison.arms, rates, strict=True)):
        _over_time(over_time, number, arm)
        values = 3600 * np.array(of_arm)
        means.bar(number, values.mean() if of_arm else 0, 0.7, **bar(number))
        means.plot([number] * len(of_arm), values, "o", color="black", markersize=2.5)
    names = [arm.name for arm in comparison.arms]
    slanted: Json = {"rotation": 20, "ha": "right"} if sum(map(len, names)) > LETTERS else {}
    means.set_xticks(range(len(rates)), names, **slanted)
    means.set_ylabel("seconds of audio per second")
    means.set_title(wrapped(means, "in the training step, a dot per seed"))
    means.grid(False, axis="x")
    over_time.set_xlabel("time in seconds")
    over_time.set_ylabel("seconds of audio per second")
    over_time.set_title(wrapped(over_time, f"over time, first seed, smoothed over {SMOOTHED_STEPS} samples"))
    over_time.set_ylim(bottom=0)
    legend(figure, over_time)
    return save(figure, folder, "throughput")


def _over_time(panel: Axes, number: int, arm: Arm) -> None:
    """The line of the first seed; a run without samples still has a value per epoch, as the mean of all seeds."""
    if not arm.runs:
        return
    samples = throughput_curve(arm.runs[0])
    if len(samples.y):
        panel.plot(samples.x, smooth(samples.y, SMOOTHED_STEPS), label=arm.name, **line(number))
    elif epochs := arm_band(arm, "train/audio_hours_per_second", "time"):
        panel.plot(epochs.x, 3600 * epochs.mean, label=arm.name, **line(number))
