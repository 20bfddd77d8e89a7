"""The figure of a search over hyperparameters (Ambroszczyk2019 §2.9)."""

from pathlib import Path

from matplotlib.axes import Axes

from asr_ablations.comparison.derived_tables import Hyperparameter, hyperparameters
from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.metrics import WER
from asr_verdicts.plotting import COLOURS, grid, legend, marker, plain_numbers, save

FEW = 6
"""If a hyperparameter has up to this many values, each gets a tick."""


def draw_search(comparison: Comparison, folder: Path) -> list[Path]:
    """Draw the figure `search`: a panel per hyperparameter, with a point per run and a star for the best. An axis is
    logarithmic if the search sampled on a logarithmic scale.
    """
    tried = hyperparameters(comparison)
    if not tried:
        return []
    figure, axes = grid(len(tried), sharey=True)
    for panel, hyperparameter in zip(axes, tried, strict=True):
        _draw_panel(panel, hyperparameter)
    figure.supylabel(f"best validation {WER.label}, {WER.unit}", fontsize=8)
    legend(figure, axes[0])
    return save(figure, folder, "search")


def _draw_panel(panel: Axes, tried: Hyperparameter) -> None:
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
