"""One arm over seeds: a dot per run, with mean and standard deviation (Ambroszczyk2019 §2.7.2)."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from asr_ablations.comparison.arm import Arm
from asr_ablations.comparison.description import Description, descriptions, final_values
from asr_ablations.comparison.result import Comparison
from asr_ablations.tools.plotting import line, panels, save


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """seeds: a panel per metric with a strip of dots per set, by seed; nothing where arms are compared."""
    by_metric: dict[str, list[Description]] = {}
    for description in descriptions(comparison.arms):
        by_metric.setdefault(description.metric.name, []).append(description)
    if not by_metric:
        return []
    figure, axes = panels(len(by_metric))
    for panel, own in zip(axes, by_metric.values(), strict=True):
        for place, description in enumerate(own):
            _strip(panel, place, comparison.arms[0], description)
        panel.set_xticks(range(len(own)), [f"{each.set}\n(n = {each.spread.runs})" for each in own])
        panel.set_xlim(-0.6, len(own) - 0.4)
        panel.set_ylabel(f"{own[0].metric.label} in {own[0].metric.unit}")
        panel.grid(False, axis="x")
    axes[0].set_title("a dot per seed; line and band: mean ± standard deviation", loc="left")
    return save(figure, folder, "seeds")


def _strip(panel: Axes, place: int, arm: Arm, description: Description) -> None:
    scale = description.metric.scale
    values = scale * np.array(final_values(arm, description.set, description.metric))
    panel.plot(place + 0.5 * (np.linspace(0, 1, len(values)) - 0.5), values, "o", color="black", markersize=3)
    ends = [place - 0.35, place + 0.35]
    mean = scale * description.spread.mean
    panel.plot(ends, [mean, mean], **line(0))
    if description.spread.deviation is not None:
        deviation = scale * description.spread.deviation.value
        panel.fill_between(ends, mean - deviation, mean + deviation, color=line(0)["color"], alpha=0.15, linewidth=0)
