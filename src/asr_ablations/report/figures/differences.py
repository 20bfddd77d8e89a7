"""A forest plot: each arm's difference from the baseline with its interval."""

from pathlib import Path

from matplotlib.axes import Axes

from asr_ablations.comparison.metrics import find_metric
from asr_ablations.comparison.result import Comparison, Verdict
from asr_ablations.report.contrasts import drawn_interval
from asr_ablations.tools.plotting import marker, panels, save


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """differences: a panel per metric, a line per arm and test set; a filled marker where a difference is shown."""
    by_metric: dict[str, list[Verdict]] = {}
    for verdict in comparison.verdicts:
        by_metric.setdefault(verdict.contrast.metric, []).append(verdict)
    if not by_metric:
        return []
    figure, axes = panels(len(by_metric), size=(5.4, 1.1 + 0.34 * max(map(len, by_metric.values()))))
    for panel, (metric, verdicts) in zip(axes, by_metric.items(), strict=True):
        for height, verdict in enumerate(reversed(verdicts)):
            _draw_verdict(panel, height, verdict, [arm.name for arm in comparison.arms])
        panel.axvline(0, color="#333333", linewidth=1)
        labels = [f"{verdict.contrast.arm}, {verdict.contrast.set}" for verdict in reversed(verdicts)]
        panel.set_yticks(range(len(verdicts)), labels)
        panel.set_ylim(-0.6, len(verdicts) - 0.4)
        shown = find_metric(metric)
        panel.set_xlabel(
            f"{shown.label} less that of {comparison.baseline}, {shown.difference_unit}\n"
            "(95 % interval; left is better)"
        )
        panel.grid(False, axis="y")
    return save(figure, folder, "differences")


def _draw_verdict(panel: Axes, height: int, verdict: Verdict, arms: list[str]) -> None:
    number = arms.index(verdict.contrast.arm) if verdict.contrast.arm in arms else 0
    look = {**marker(number), "linestyle": "-", "linewidth": 1.5, "capsize": 3, "markersize": 6}
    if verdict.outcome in ("better", "worse"):
        look["markerfacecolor"] = look["color"]
    scale = find_metric(verdict.contrast.metric).scale
    middle = scale * verdict.contrast.difference
    low, high = drawn_interval(verdict.contrast)
    sides = [[max(0.0, middle - scale * low)], [max(0.0, scale * high - middle)]]
    panel.errorbar(middle, height, xerr=sides, **look)
