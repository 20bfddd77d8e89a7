"""Loss and error rates during training, seeds as a band (Ambroszczyk2019 figures 2.1–2.8; Baunsgaard2020 figure 7)."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from asr_ablations.comparison.metrics import CER, LOSS, WER, Metric, find_metric
from asr_ablations.comparison.result import Comparison
from asr_ablations.report.curves import AXES, arm_band, metric_names
from asr_ablations.tools.plotting import legend, line, log_scale, marker, panels, save

DRAWN = ("epoch", "step", "time")
KINDS = (LOSS, WER, CER)


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """loss_by_<axis>, wer_by_<axis>, cer_by_<axis>, and those of the metric compared: a panel per set, a logarithmic y
    axis where the values allow it.
    """
    losses = [*metric_names(comparison, "train/loss_epoch"), *metric_names(comparison, "validation/", "/loss")]
    columns = {
        metric: losses if metric is LOSS else metric_names(comparison, "validation/", f"/{metric.name}")
        for metric in dict.fromkeys([*KINDS, find_metric(comparison.metric)])
    }
    paths = []
    for axis in DRAWN:
        for metric, names in columns.items():
            figure = _figure(comparison, metric, names, axis)
            paths += save(figure, folder, f"{metric.name}_by_{axis}") if figure else []
    return paths


def _figure(comparison: Comparison, metric: Metric, columns: list[str], axis: str) -> Figure | None:
    shown = [column for column in columns if any(arm_band(arm, column, axis) for arm in comparison.arms)]
    if not shown:
        return None
    figure, axes = panels(len(shown))
    for panel, column in zip(axes, shown, strict=True):
        _panel(comparison, panel, metric, column, axis)
    legend(figure, axes[0])
    return figure


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
    for target in {time.target for time in comparison.times_to_accuracy if column.endswith(f"/{time.metric}")}:
        panel.axhline(scale * target, color="#555555", linewidth=0.8, linestyle=(0, (1, 2)))
        place = (1, scale * target)  # at the right edge, on the line
        options = {"ha": "right", "va": "bottom", "fontsize": 7.5, "color": "#555555"}
        panel.annotate(f"target {scale * target:g}", place, xycoords=("axes fraction", "data"), **options)
    panel.set_xlabel(AXES[axis])
    panel.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    panel.set_ylabel(f"{metric.label} in {metric.unit}")
    panel.set_title("training" if column.startswith("train/") else "validation, " + column.split("/")[1])
