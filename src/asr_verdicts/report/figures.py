"""Figures of error rates (one dot per seed), of differences with their intervals, and of planned looks."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.metrics import CER, LOSS, METRICS, WER, Metric, find_metric, measured_sets
from asr_verdicts.one_arm import final_values
from asr_verdicts.plan import VerdictPlan
from asr_verdicts.plotting import (
    COLOURS,
    LOOK,
    draw_strip,
    grid,
    legend,
    line,
    marker,
    panels,
    save,
    whole_legend,
    width_for,
    wrapped,
)
from asr_verdicts.report.looks import furthest, look_rows, looks_metric, margin_text, shown_margin
from asr_verdicts.terminal import bar as progress_bar
from asr_verdicts.verdict import SHOWN, Outcome, Verdict


def draw_seeds(comparison: Comparison) -> Figure | None:
    """Draw a panel for each metric, with a strip for each arm and set, and a dot for each seed.

    If there is only one arm, the figure also shows the first validation set.
    """
    arms, alone = comparison.arms, len(comparison.arms) == 1
    sets = measured_sets(LOSS, comparison.runs) if alone else comparison.sets
    wanted = [each for each in METRICS.values() if alone or each in (WER, CER, LOSS, comparison.design.metric)]
    measured = {
        metric: [name for name in sets if any(final_values(arm, name, metric) for arm in arms)] for metric in wanted
    }
    measured = {metric: names for metric, names in measured.items() if names}
    if not measured:
        return None
    figure, axes = grid(len(measured))
    for panel, (metric, names) in zip(axes, measured.items(), strict=True):
        for place, name in enumerate(names):
            for number, arm in enumerate(arms):
                values = metric.scale * np.array(final_values(arm, name, metric))
                look = {**line(number), "label": "" if place or alone else arm.name}
                draw_strip(panel, place - 0.5 + (number + 0.5) / len(arms), 1 / len(arms), values, look)
        runs = [f"\n(n = {len(final_values(arms[0], name, metric))})" if alone else "" for name in names]
        panel.set_xticks(range(len(names)), [f"{name}{count}" for name, count in zip(names, runs, strict=True)])
        panel.set_xlim(-0.6, len(names) - 0.4)
        panel.set_ylabel(f"{metric.label} in {metric.unit}")
        panel.grid(False, axis="x")
    explain = figure.suptitle if alone else figure.supxlabel  # several arms have a legend at the top
    explain("a dot per seed; line and band: mean ± standard deviation", fontsize=8)
    legend(figure, axes[0])
    return figure


def draw_differences(comparison: Comparison) -> Figure | None:
    """Draw each question's difference and interval, with a filled marker if the difference is shown.

    Verdicts on the deciding test set are drawn above the results on the other test sets.
    """
    verdicts = [verdict for verdict in comparison.verdicts if verdict.low is not None]
    if not verdicts:
        return None
    metric = find_metric(comparison.metric)
    labels = [f"{verdict.arm}, {verdict.set}" for verdict in reversed(verdicts)]
    figure, (panel,) = panels(1, width=width_for(labels), height=0.9 + 0.24 * len(verdicts))
    for height, verdict in enumerate(reversed(verdicts)):
        _draw_verdict(panel, height, verdict, [arm.name for arm in comparison.arms], metric)
    describing = sum(not verdict.primary for verdict in verdicts)
    if 0 < describing < len(verdicts):
        panel.axhline(describing - 0.5, color="#999999", linewidth=0.8)
    panel.axvline(0, color="#333333", linewidth=1)
    panel.set_yticks(range(len(verdicts)), labels)
    panel.set_ylim(-0.6, len(verdicts) - 0.4)
    measured = f"{metric.label} difference to {comparison.baseline}, {metric.amount}"
    meaning = "interval of the verdict; left is better"
    figure.supxlabel(f"{wrapped(panel, measured)}\n{wrapped(panel, meaning)}", fontsize=8)
    panel.grid(False, axis="y")
    return figure


def _draw_verdict(panel: Axes, height: int, verdict: Verdict, arms: list[str], metric: Metric) -> None:
    number = arms.index(verdict.arm) if verdict.arm in arms else 0
    look = {**marker(number), "linestyle": "-", "linewidth": 1.5, "capsize": 3, "markersize": 5}
    if verdict.outcome in SHOWN:
        look["markerfacecolor"] = look["color"]
    middle, low, high = (metric.scale * (end or 0.0) for end in (verdict.difference, verdict.low, verdict.high))
    if not math.isfinite(low) or not math.isfinite(high):  # an infinite interval has no bar
        shape = {key: value for key, value in look.items() if key != "capsize"}
        panel.plot(middle, height, **{**shape, "linestyle": ""})
        return
    panel.errorbar(middle, height, xerr=[[max(0.0, middle - low)], [max(0.0, high - middle)]], **look)


STATES: dict[Outcome, tuple[str, str]] = {
    "better": (COLOURS[2], "v"),
    "worse": (COLOURS[1], "^"),
    "equivalent": (COLOURS[0], "s"),
    "typical runs equivalent": (COLOURS[0], "s"),
    "undecided": (COLOURS[4], "D"),
    "interaction shown": (COLOURS[3], "P"),
}  # colour and marker of each outcome; other outcomes are drawn as grey circles


def draw_looks(comparison: Comparison) -> Figure | None:
    """Draw one panel per question, with its interval at each planned look. Draw nothing if there is no plan."""
    rows = look_rows(comparison)
    if not rows:
        return None
    plan = comparison.course.followed
    metric = looks_metric(plan)
    names = list(dict.fromkeys(row["arm"] for row in rows))
    figure, axes = grid(len(names), sharex=True, sharey=True)
    reach = metric.scale * furthest(rows, shown_margin(plan))
    for panel, name in zip(axes, names, strict=True):
        _draw_question(panel, [row for row in rows if row["arm"] == name], plan, metric, reach)
    axes[0].set_ylim(-reach, reach)
    figure.supylabel(f"{metric.label} difference to\n{comparison.baseline}, {metric.amount}", fontsize=8)
    figure.supxlabel("seeds of each arm at the look", fontsize=8)
    handles = [
        Line2D([], [], color="#666666", marker="o", markerfacecolor="white", linewidth=1.5),
        Line2D([], [], color="#666666", linewidth=4, alpha=0.45),
        Patch(color="#bbbbbb", alpha=0.35),
    ]
    labels = ["difference, interval over all looks", "interval for equality", f"margin {margin_text(plan)}"]
    whole_legend(figure, handles, labels)
    return figure


def _draw_question(panel: Axes, rows: Sequence[Json], plan: VerdictPlan, metric: Metric, reach: float) -> None:
    margin, last = metric.scale * shown_margin(plan), rows[-1]
    panel.axhspan(-margin, margin, color="#bbbbbb", alpha=0.35, linewidth=0)
    panel.axhline(0, color="#333333", linewidth=1)
    for row in rows:
        colour, marker = STATES.get(row["state"], ("#666666", "o"))
        if row["low"] is not None:
            _draw_bar(panel, row["seeds"], [metric.scale * row[key] for key in ("low", "high")], colour, reach)
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
    title = f"{wrapped(panel, last['arm'], 0.8)}\n{last['state']} at {last['seeds']} seeds"
    panel.set_title(title, loc="left")


def _draw_bar(panel: Axes, x: float, ends: Sequence[float], colour: str, reach: float) -> None:
    """Draw an interval with a cap at each end, or an arrowhead at an end outside the panel."""
    low, high = ends
    panel.plot([x, x], [max(low, -reach), min(high, reach)], color=colour, linewidth=1.5)
    for end, arrow in ((low, "v"), (high, "^")):
        beyond = abs(end) > reach
        place = math.copysign(0.97 * reach, end) if beyond else end
        panel.plot(x, place, marker=arrow if beyond else "_", color=colour, markersize=5 if beyond else 8)


Draw = Callable[[Comparison], Figure | None]
"""Draws a figure; None if the comparison lacks the data."""

FIGURES: dict[str, Draw] = {
    "differences": draw_differences,
    "seeds": draw_seeds,
    "looks": draw_looks,
}  # by figure name, in drawing order


def write_figures(
    comparison: Comparison, folder: Path, figures: Mapping[str, Draw], kinds: Iterable[str] = ()
) -> list[Path]:
    """Draw figures into a folder, as files of each kind (PNG, SVG and PDF by default), and return the files' paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with rc_context(LOOK), progress_bar("drawing", len(figures)) as advance:
        for name, draw in figures.items():
            figure = draw(comparison)
            paths += [] if figure is None else save(figure, folder, name, kinds)
            advance(1)
    return paths
