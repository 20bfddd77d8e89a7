"""Short runs beside long ones, in the terminal and as a file."""

import math
from dataclasses import asdict
from pathlib import Path

from asr_ablations.comparison.metrics import find_metric
from asr_ablations.comparison.short_runs import ShortRuns
from asr_ablations.report.files import plain
from asr_ablations.report.formats import body
from asr_ablations.report.section import Section
from asr_ablations.report.tables import interval_text
from asr_ablations.statistics.intervals import Range
from asr_ablations.tools.files import write, write_json


def short_runs_section(both: ShortRuns) -> Section:
    """A row for each arm with its differences from the baseline, and what they say together."""
    rows = []
    for arm, pair in both.verdicts.items():
        metric = find_metric(pair[0].contrast.metric)
        cells = [f"{metric.text(one.contrast.difference, sign=True)} ({interval_text(one)})" for one in pair]
        rows.append([arm, cells[0], pair[0].outcome, cells[1], pair[1].outcome])
    transfer = both.transfer
    lines = [
        f"{transfer.kept} of {transfer.arms} differences have the same sign in both.",
        f"Kendall's τ between the orders of the arms is {_range(transfer.tau)}; 1 is the same order, 0 is chance.",
        f"A difference of 1 in short runs is {_range(transfer.slope)} in long ones.",
        _verdicts(both),
    ]
    head = ["arm", "short: difference", "verdict", "long: difference", "verdict"]
    return Section(
        f"the same arms in short and in long runs, against {both.baseline}, on {both.set}", head, rows, lines
    )


def _verdicts(both: ShortRuns) -> str:
    shown = both.shown
    again = sum(short.outcome == long.outcome for short, long in shown)
    turned = f"; turned round: {', '.join(both.reversed)}" if both.reversed else "; none is turned round"
    return f"Of {len(shown)} arms that short runs call better or worse, long runs call {again} the same{turned}."


def _range(range_: Range) -> str:
    if math.isnan(range_.low):
        return f"{range_.value:.2f}"
    return f"{range_.value:.2f} ({range_.low:.2f} to {range_.high:.2f})"


def write_short_runs(both: ShortRuns, folder: Path) -> list[Path]:
    """short_runs.md and short_runs.json in a folder; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "short_runs.md", folder / "short_runs.json"]
    write(paths[0], "\n\n".join(body(short_runs_section(both))) + "\n")
    arms = {
        arm: [{name: getattr(one.contrast, name) for name in ("difference", "low", "high", "outcome")} for one in pair]
        for arm, pair in both.verdicts.items()
    }
    content = {**asdict(both.transfer), "baseline": both.baseline, "set": both.set, "differences": arms}
    write_json(paths[1], plain(content))
    return paths
