"""Loss and error rates during training, seeds as a band (papers/003 figures 2.1–2.8; papers/004 figure 7)."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from asr_ablations.comparison.result import Comparison
from asr_ablations.report.curves import AXES, arm_band, metric_names
from asr_ablations.tools.plotting import legend, line, log_scale, marker, panels, save

DRAWN = ("epoch", "step", "time")
RATES = {"wer": "WER", "cer": "CER"}


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """loss_by_<axis>, wer_by_<axis>, cer_by_<axis>: a panel per set, a logarithmic y axis where the values allow it."""
    losses = [*metric_names(comparison, "train/loss_epoch"), *metric_names(comparison, "validation/", "/loss")]
    kinds = {"loss": losses, **{kind: metric_names(comparison, "validation/", f"/{kind}") for kind in RATES}}
    paths = []
    for axis in DRAWN:
        for kind, metrics in kinds.items():
            figure = _figure(comparison, kind, metrics, axis)
            paths += save(figure, folder, f"{kind}_by_{axis}") if figure else []
    return paths


def _figure(comparison: Comparison, kind: str, metrics: list[str], axis: str) -> Figure | None:
    shown = [metric for metric in metrics if any(arm_band(arm, metric, axis) for arm in comparison.arms)]
    if not shown:
        return None
    figure, axes = panels(len(shown))
    for panel, metric in zip(axes, shown, strict=True):
        _panel(comparison, panel, kind, metric, axis)
    legend(figure, axes[0])
    return figure


def _panel(comparison: Comparison, panel: Axes, kind: str, metric: str, axis: str) -> None:
    scale = 100 if kind in RATES else 1
    drawn: list[float] = []
    for number, arm in enumerate(comparison.arms):
        band = arm_band(arm, metric, axis)
        if band is None:
            continue
        seeds = f" ({len(arm.runs)} seeds)" if len(arm.runs) > 1 else ""
        options = {**line(number), **marker(number), "markevery": max(1, len(band.x) // 10)}
        panel.plot(band.x, scale * band.mean, label=arm.name + seeds, **options)
        colour = {"color": options["color"], "alpha": 0.15, "linewidth": 0}
        panel.fill_between(band.x, scale * band.low, scale * band.high, **colour)
        drawn += [*(scale * band.low), *(scale * band.high)]
    log_scale(panel, drawn)
    for target in {time.target for time in comparison.times_to_accuracy if metric.endswith(f"/{time.metric}")}:
        panel.axhline(scale * target, color="#555555", linewidth=0.8, linestyle=(0, (1, 2)))
    panel.set_xlabel(AXES[axis])
    panel.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    panel.set_ylabel(f"{RATES[kind]} in %" if kind in RATES else "CTC loss in nats per label")
    panel.set_title("training" if metric.startswith("train/") else "validation, " + metric.split("/")[1])
