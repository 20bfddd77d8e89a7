"""Final error rates and losses, a bar per arm and a dot per seed (Ambroszczyk2019 §2.7.2; Baunsgaard2020 table 5)."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from asr_ablations.comparison.arm import Arm
from asr_ablations.comparison.metrics import METRICS, WER, Metric
from asr_ablations.comparison.result import Comparison
from asr_ablations.comparison.table import final_value
from asr_ablations.tools.plotting import bar, legend, panels, save


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """error_rates: a panel per metric; whiskers are the standard deviation over seeds."""
    arms = comparison.arms
    sets = [name for name in comparison.sets if any(_values(arm, name, WER) for arm in arms)]
    shown = [metric for metric in METRICS.values() if any(_values(arm, name, metric) for arm in arms for name in sets)]
    if not shown:
        return []
    figure, axes = panels(len(shown))
    for panel, metric in zip(axes, shown, strict=True):
        for number, arm in enumerate(arms):
            _bars(panel, number, arm, [_values(arm, name, metric) for name in sets], 0.8 / len(arms))
        panel.set_xticks(range(len(sets)), sets)
        panel.set_ylabel(f"{metric.label} in {metric.unit}")
        panel.grid(False, axis="x")
    legend(figure, axes[0])
    return save(figure, folder, "error_rates")


def _bars(panel: Axes, number: int, arm: Arm, values_by_set: list[list[float]], width: float) -> None:
    for place, values in enumerate(values_by_set):
        if not values:
            continue
        x = place - 0.4 + width * (number + 0.5)
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        label = arm.name if place == 0 else ""
        whisker = {"linewidth": 1, "capsize": 3}
        panel.bar(x, float(np.mean(values)), width, label=label, yerr=deviation, error_kw=whisker, **bar(number))
        spread = x + width * 0.12 * (np.arange(len(values)) - (len(values) - 1) / 2)
        panel.plot(spread, values, "o", color="black", markersize=2.5)


def _values(arm: Arm, name: str, metric: Metric) -> list[float]:
    """The metric of every seed, in its unit."""
    return [metric.scale * value for run in arm.runs if (value := final_value(run, name, metric.name)) is not None]
