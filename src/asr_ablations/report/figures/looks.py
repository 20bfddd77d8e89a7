"""The looks of a sweep with a plan: the interval of each question shrinks as seeds are added."""

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from asr_ablations.comparison.contrast import Outcome
from asr_ablations.comparison.metrics import Metric, find_metric
from asr_ablations.comparison.result import Comparison
from asr_ablations.report.looks import furthest, look_rows, margin_text
from asr_ablations.runs.verdict_plan import VerdictPlan
from asr_ablations.tools.files import Json
from asr_ablations.tools.plotting import COLOURS, panels, save, whole_legend

COLUMNS = 3
"""Panels beside each other."""
STATES: dict[Outcome, tuple[str, str]] = {
    "better": (COLOURS[2], "v"),
    "worse": (COLOURS[1], "^"),
    "equivalent": (COLOURS[0], "s"),
    "undecided": (COLOURS[4], "D"),
    "interaction shown": (COLOURS[3], "P"),
}
"""Colour and marker of a state at the end; those that are not named are grey circles."""


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """looks: a panel per question over the seeds of each arm; nothing for a sweep without a plan."""
    rows, plan = look_rows(comparison), comparison.plan
    if not rows or plan is None:
        return []
    metric = find_metric(comparison.metric)
    names = list(dict.fromkeys(row["arm"] for row in rows))
    columns = min(COLUMNS, len(names))
    figure, axes = panels(columns, math.ceil(len(names) / columns), sharex=True, sharey=True)
    reach = metric.scale * furthest(rows, plan.margin)
    for panel, name in zip(axes, names, strict=False):
        _draw_question(panel, [row for row in rows if row["arm"] == name], plan, metric, reach)
    for panel in axes[len(names) :]:
        panel.set_visible(False)
    axes[0].set_ylim(-reach, reach)
    for panel in axes[::columns]:
        panel.set_ylabel(f"{metric.label} less that of\n{comparison.baseline}, {metric.difference_unit}")
    for panel in axes[max(0, len(names) - columns) : len(names)]:
        panel.set_xlabel("seeds of each arm at the look")
    _legend(figure, plan)
    return save(figure, folder, "looks")


def _draw_question(panel: Axes, rows: Sequence[Json], plan: VerdictPlan, metric: Metric, reach: float) -> None:
    margin, last = metric.scale * plan.margin, rows[-1]
    panel.axhspan(-margin, margin, color="#bbbbbb", alpha=0.35, linewidth=0)
    panel.axhline(0, color="#333333", linewidth=1)
    for row in rows:
        colour, marker = STATES.get(row["state"], ("#666666", "o"))
        if row["low"] is not None:
            _bar(panel, row["seeds"], [metric.scale * row[key] for key in ("low", "high")], colour, reach)
        if row["equal_low"] is not None:
            ends = [metric.scale * row[key] for key in ("equal_low", "equal_high")]
            panel.plot([row["seeds"]] * 2, ends, color=colour, linewidth=4, alpha=0.45, solid_capstyle="butt")
        face = "white" if row["state"] == "open" else colour
        middle = metric.scale * row["difference"]
        panel.plot(row["seeds"], middle, marker=marker, color=colour, markerfacecolor=face, markersize=6)
    panel.set_xticks(plan.looks)
    panel.tick_params(labelbottom=True)
    panel.set_xlim(plan.looks[0] - 0.06 * plan.most, 1.06 * plan.most)
    panel.grid(False, axis="x")
    panel.set_title(f"{last['arm']}: {last['state']} at {last['seeds']} seeds", loc="left")


def _bar(panel: Axes, x: float, ends: Sequence[float], colour: str, reach: float) -> None:
    """An interval with caps; an arrowhead where it goes on beyond the panel."""
    low, high = ends
    panel.plot([x, x], [max(low, -reach), min(high, reach)], color=colour, linewidth=1.5)
    for end, arrow in ((low, "v"), (high, "^")):
        beyond = abs(end) > reach
        place = math.copysign(0.97 * reach, end) if beyond else end
        panel.plot(x, place, marker=arrow if beyond else "_", color=colour, markersize=5 if beyond else 8)


def _legend(figure: Figure, plan: VerdictPlan) -> None:
    handles = [
        Line2D([], [], color="#666666", marker="o", markerfacecolor="white", linewidth=1.5),
        Line2D([], [], color="#666666", linewidth=4, alpha=0.45),
        Patch(color="#bbbbbb", alpha=0.35),
    ]
    labels = ["difference, interval over all looks", "interval for equality", f"margin {margin_text(plan)}"]
    whole_legend(figure, handles, labels)
