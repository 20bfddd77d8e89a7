"""How often a verdict comes again when its question is asked once more with fresh seeds: by a plan, by grade, and of a
fixed number of seeds, beside what the noise predicts.
"""

from collections.abc import Sequence
from math import isnan, nan, sqrt
from typing import TypeAlias

from tests.campaign.part import Context, Report
from tests.helpers.planned_worlds import PRIORS, repeated, repeated_without_plan

NAME = "grades"
DESCRIPTION = "how often a verdict of each grade comes again with fresh seeds, over simulated sweeps asked twice"
BLOCK, BLOCKS = 25, 120
"""Questions of a block, and the most blocks of each prior."""
STATED = {
    "beyond the margin": (100, 100), "size unclear": (88, 93), "less than the margin": (53, 67), "equivalent": (60, 76),
}  # fmt: skip
"""Percent, as docs/statistics.md states, over the priors, of a plan."""
PLAN, SHOWN = "planned", "better or worse"
Row: TypeAlias = tuple[str, str, str]
"""True effects, seeds of each arm or PLAN, the first verdict."""
SEEDS = (3, 5, 8)
"""Of each arm, without a plan."""
ALLOWED = 5.0
"""Points beyond what is stated, beside three standard errors."""


def run(context: Context) -> Report:
    """Every prior, a block at a time."""
    report = context.report("true effects", "seeds", "first verdict", "questions", "predicted %", "the same again %")
    asked: dict[Row, list[tuple[float, bool]]] = {}
    blocks = [(block, prior) for block in range(BLOCKS) for prior in PRIORS]
    try:
        for block, prior in context.while_time(blocks, len(blocks)):
            for first, second in repeated(prior, BLOCK, (context.seed, block)):
                grade: str = "different, and equivalent" if first.immaterial else first.grade or first.outcome
                asked.setdefault((prior, PLAN, grade), []).append((nan, second.outcome == first.outcome))
            for seeds in SEEDS:
                for outcome, chance, again in repeated_without_plan(prior, seeds, BLOCK, (context.seed, block, seeds)):
                    shown = SHOWN if outcome in ("better", "worse") else outcome
                    asked.setdefault((prior, str(seeds), shown), []).append((chance, again))
    finally:
        for row, answers in sorted(asked.items()):
            add(report, row, answers)
    return report


def add(report: Report, row: Row, answers: Sequence[tuple[float, bool]]) -> None:
    """A row, and a failure where a plan's share is further from what is stated than chance allows, or that of the wide
    prior with five seeds or more from what is predicted. answers: the chance that was predicted, nan of a plan, and
    whether the same verdict came again.
    """
    prior, seeds, verdict = row
    total, same = len(answers), sum(again for _, again in answers)
    share, error = 100 * same / total, 100 * sqrt(max(same, 1) * max(total - same, 1)) / total**1.5
    predicted = 100 * sum(chance for chance, _ in answers) / total
    expected = "–" if isnan(predicted) else f"{predicted:.1f}"
    report.rows.append([*row, str(total), expected, f"{share:.1f} ± {error:.1f}"])
    report.count("questions", total)
    low, high = 0.0, 100.0
    if seeds == PLAN:
        low, high = STATED.get(verdict, (low, high))
    elif prior == "wide" and seeds != "3" and verdict == SHOWN:
        low = high = predicted
    if not low - ALLOWED - 3 * error <= share <= high + ALLOWED + 3 * error:
        report.failures.append(f"{', '.join(row)}: came again in {share:.1f} %, expected {low:.1f} to {high:.1f}")
