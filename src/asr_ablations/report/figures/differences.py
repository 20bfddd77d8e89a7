"""A forest plot: each arm's difference from the baseline with its interval."""

from pathlib import Path

from asr_ablations.comparison.result import Comparison
from asr_ablations.report.interval import high, low, outcome
from asr_ablations.tools.plotting import marker, panels, save


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """differences: a panel a metric, a line an arm and test set; what is shown to differ is filled."""
    metrics = list(dict.fromkeys(d.metric for d in comparison.differences))
    if not metrics:
        return []
    most = max(sum(d.metric == metric for d in comparison.differences) for metric in metrics)
    figure, axes = panels(len(metrics), size=(5.4, 1.1 + 0.34 * most))
    names = [arm.name for arm in comparison.arms]
    for panel, metric in zip(axes, metrics, strict=True):
        own = [d for d in comparison.differences if d.metric == metric]
        for height, found in enumerate(reversed(own)):
            number = names.index(found.arm) if found.arm in names else 0
            look = {**marker(number), "linestyle": "-", "linewidth": 1.5, "capsize": 3, "markersize": 6}
            if outcome(found) in ("better", "worse"):
                look["markerfacecolor"] = look["color"]
            middle = 100 * found.difference
            sides = [[middle - 100 * low(found)], [100 * high(found) - middle]]
            panel.errorbar(middle, height, xerr=[[max(0.0, s) for s in side] for side in sides], **look)
        panel.axvline(0, color="#333333", linewidth=1)
        panel.set_yticks(range(len(own)), [f"{d.arm}, {d.set}" for d in reversed(own)])
        panel.set_ylim(-0.6, len(own) - 0.4)
        panel.set_xlabel(
            f"{metric.upper()} less that of {comparison.baseline}, % points\n(95 % interval; left is better)"
        )
        panel.grid(False, axis="y")
    return save(figure, folder, "differences")
