"""Final error rates, a bar an arm and a dot a seed (papers/003 §2.7.2; papers/004 table 5)."""

from pathlib import Path

import numpy as np

from asr_ablations.comparison.result import Arm, Comparison
from asr_ablations.tools.plotting import bar, legend, panels, save

RATES = {"wer": "WER", "cer": "CER"}


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """error_rates: a panel a rate; whiskers are the standard deviation over seeds."""
    sets = [name for name in comparison.sets if any(_values(arm, name, "wer") for arm in comparison.arms)]
    if not sets:
        return []
    figure, axes = panels(len(RATES))
    width = 0.8 / len(comparison.arms)
    for panel, (rate, label) in zip(axes, RATES.items(), strict=True):
        for number, arm in enumerate(comparison.arms):
            for place, name in enumerate(sets):
                values = _values(arm, name, rate)
                if not values:
                    continue
                x = place - 0.4 + width * (number + 0.5)
                deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
                whisker = {"yerr": deviation, "error_kw": {"linewidth": 1, "capsize": 3}}
                told = arm.name if place == 0 else None
                panel.bar(x, np.mean(values), width, label=told, **whisker, **bar(number))  # type: ignore[arg-type]
                spread = x + width * 0.12 * (np.arange(len(values)) - (len(values) - 1) / 2)
                panel.plot(spread, values, "o", color="black", markersize=2.5)
        panel.set_xticks(range(len(sets)), sets)
        panel.set_ylabel(f"{label} in %")
        panel.grid(False, axis="x")
    legend(figure, axes[0])
    return save(figure, folder, "error_rates")


def _values(arm: Arm, name: str, rate: str) -> list[float]:
    found = [run.summary.get("sets", {}).get(name, {}).get(rate) for run in arm.runs]
    return [100 * value for value in found if value is not None]
