"""Figures of a search by each hyperparameter, and of loss against WER (Ambroszczyk2019 §2.1 and §2.9)."""

from pathlib import Path

from matplotlib.axes import Axes

from asr_ablations.comparison.derived_tables import Hyperparameter, hyperparameters, loss_against_wer
from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.metrics import LOSS, WER
from asr_verdicts.plotting import COLOURS, grid, legend, marker, plain_numbers, save, wrapped

FEW = 6
"""Different values, of which each has its own tick."""


def draw_search(comparison: Comparison, folder: Path) -> list[Path]:
    """search: a small panel per hyperparameter, a point per run that the search proposed, a star for the best of them.
    The axis is logarithmic where the search drew logarithmically.
    """
    tried = hyperparameters(comparison)
    if not tried:
        return []
    figure, axes = grid(len(tried), sharey=True)
    for panel, hyperparameter in zip(axes, tried, strict=True):
        _panel(panel, hyperparameter)
    figure.supylabel(f"best validation {WER.label}, {WER.unit}", fontsize=8)
    legend(figure, axes[0])
    return save(figure, folder, "search")


def _panel(panel: Axes, tried: Hyperparameter) -> None:
    rates = [WER.scale * rate for rate in tried.rates]
    others = {**marker(0), "linestyle": "", "label": "a run"}
    panel.plot(tried.values, rates, **others)
    star: Json = {
        "marker": "*",
        "markersize": 12,
        "linestyle": "",
        "color": COLOURS[1],
        "label": f"best: {rates[tried.best]:.1f} %",
    }
    panel.plot([tried.values[tried.best]], [rates[tried.best]], **star)
    panel.set_xlabel(tried.key)
    panel.margins(x=0.1, y=0.12)
    different = sorted({value for value in tried.values if isinstance(value, float)})
    if tried.logarithmic:
        panel.set_xscale("log")
        plain_numbers(panel.xaxis, (1, 3))
    elif 0 < len(different) <= FEW:
        panel.set_xticks(different)


def draw_loss_against_wer(comparison: Comparison, folder: Path) -> list[Path]:
    """loss_against_wer: a panel for what is set against what, a marker per arm, the rank correlation above it."""
    measured = loss_against_wer(comparison.arms, comparison.sets)
    if not measured:
        return []
    figure, axes = grid(len(measured))
    for panel, each in zip(axes, measured, strict=True):
        for number, arm in enumerate(comparison.arms):
            own = [point for point in each.points if point.arm == arm.name]
            losses, rates = [point.loss for point in own], [WER.scale * point.wer for point in own]
            panel.plot(losses, rates, linestyle="", label=arm.name, **marker(number))
        rho = each.correlation
        label = "" if rho is None else f"\nrank correlation {rho.value:.2f} ({rho.low:.2f} to {rho.high:.2f})"
        panel.set_title(wrapped(panel, each.name) + label, loc="left")
        panel.set_xlabel(f"validation {LOSS.label} in {LOSS.unit}")
        panel.set_ylabel(f"{WER.label} in {WER.unit}")
    legend(figure, axes[0])
    return save(figure, folder, "loss_against_wer")
