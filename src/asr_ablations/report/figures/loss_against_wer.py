"""Validation loss against WER, a point per run: the figure that Ambroszczyk2019 §2.1 left open."""

from pathlib import Path

from asr_ablations.comparison.loss_against_wer import loss_against_wer
from asr_ablations.comparison.metrics import LOSS, WER
from asr_ablations.comparison.result import Comparison
from asr_ablations.tools.plotting import legend, marker, panels, save


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """loss_against_wer: a panel for what is set against what, a marker per arm, the rank correlation above it."""
    measured = loss_against_wer(comparison.arms, comparison.sets)
    if not measured:
        return []
    figure, axes = panels(len(measured))
    for panel, each in zip(axes, measured, strict=True):
        for number, arm in enumerate(comparison.arms):
            own = [point for point in each.points if point.arm == arm.name]
            losses, rates = [point.loss for point in own], [WER.scale * point.wer for point in own]
            panel.plot(losses, rates, linestyle="", label=arm.name, **marker(number))
        rho = each.correlation
        label = "" if rho is None else f"\nrank correlation {rho.value:.2f} ({rho.low:.2f} to {rho.high:.2f})"
        panel.set_title(each.name + label, loc="left")
        panel.set_xlabel(f"validation {LOSS.label} in {LOSS.unit}")
        panel.set_ylabel(f"{WER.label} in {WER.unit}")
    legend(figure, axes[0])
    return save(figure, folder, "loss_against_wer")
