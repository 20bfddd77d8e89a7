"""A forest plot: each arm's difference from the baseline with its interval."""

import math
from pathlib import Path

from matplotlib.axes import Axes

from asr_ablations.comparison.contrast import SHOWN, Verdict
from asr_ablations.comparison.metrics import Metric, find_metric
from asr_ablations.comparison.result import Comparison
from asr_ablations.tools.plotting import marker, panels, save


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """differences: a line per contrast with the interval of its verdict; a filled marker where a difference is shown.
    The sets that only describe stand below the line.
    """
    verdicts = [verdict for verdict in comparison.verdicts if verdict.contrast.low is not None]
    if not verdicts:
        return []
    metric = find_metric(comparison.metric)
    figure, (panel,) = panels(1, size=(6.4, 1.3 + 0.34 * len(verdicts)))
    for height, verdict in enumerate(reversed(verdicts)):
        _draw_verdict(panel, height, verdict, [arm.name for arm in comparison.arms], metric)
    describing = sum(not verdict.contrast.primary for verdict in verdicts)
    if 0 < describing < len(verdicts):
        panel.axhline(describing - 0.5, color="#999999", linewidth=0.8)
    panel.axvline(0, color="#333333", linewidth=1)
    panel.set_yticks(range(len(verdicts)), [_label(verdict) for verdict in reversed(verdicts)])
    panel.set_ylim(-0.6, len(verdicts) - 0.4)
    panel.set_xlabel(
        f"{metric.label} less that of {comparison.baseline}, {metric.difference_unit}\n"
        "(interval at the level of the verdict, corrected; left is better)"
    )
    panel.grid(False, axis="y")
    return save(figure, folder, "differences")


def _label(verdict: Verdict) -> str:
    return f"{verdict.contrast.arm}, {verdict.contrast.set}"


def _draw_verdict(panel: Axes, height: int, verdict: Verdict, arms: list[str], metric: Metric) -> None:
    contrast = verdict.contrast
    number = arms.index(contrast.arm) if contrast.arm in arms else 0
    look = {**marker(number), "linestyle": "-", "linewidth": 1.5, "capsize": 3, "markersize": 6}
    if verdict.outcome in SHOWN:
        look["markerfacecolor"] = look["color"]
    middle, low, high = (metric.scale * (end or 0.0) for end in (contrast.difference, contrast.low, contrast.high))
    if not math.isfinite(low) or not math.isfinite(high):  # an interval without ends has no bar
        shape = {key: value for key, value in look.items() if key != "capsize"}
        panel.plot(middle, height, **{**shape, "linestyle": ""})
        return
    panel.errorbar(middle, height, xerr=[[max(0.0, middle - low)], [max(0.0, high - middle)]], **look)
