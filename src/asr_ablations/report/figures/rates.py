"""Final error rates, a bar per arm and a dot per seed (papers/003 §2.7.2; papers/004 table 5)."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from asr_ablations.comparison.result import Arm, Comparison
from asr_ablations.comparison.table import final_value
from asr_ablations.tools.plotting import bar, legend, panels, save

RATES = {"wer": "WER", "cer": "CER"}


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """error_rates: a panel per rate; whiskers are the standard deviation over seeds."""
    sets = [name for name in comparison.sets if any(_values(arm, name, "wer") for arm in comparison.arms)]
    if not sets:
        return []
    figure, axes = panels(len(RATES))
    for panel, (rate, label) in zip(axes, RATES.items(), strict=True):
        for number, arm in enumerate(comparison.arms):
            _bars(panel, number, arm, [_values(arm, name, rate) for name in sets], 0.8 / len(comparison.arms))
        panel.set_xticks(range(len(sets)), sets)
        panel.set_ylabel(f"{label} in %")
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


def _values(arm: Arm, name: str, rate: str) -> list[float]:
    """The rate of every seed, in percent."""
    return [100 * value for run in arm.runs if (value := final_value(run, name, rate)) is not None]
