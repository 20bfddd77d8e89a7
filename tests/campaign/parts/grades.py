"""How often a verdict comes again when the same plan asks once more with fresh seeds, by the grade of the first."""

from collections import Counter
from math import sqrt

from tests.campaign.part import Context, Report
from tests.helpers.planned_worlds import PRIORS, repeated

NAME = "grades"
DESCRIPTION = "how often a verdict of each grade comes again with fresh seeds, over simulated sweeps asked twice"
BLOCK, BLOCKS = 25, 120
"""Questions of a block, and the most blocks of each prior."""
STATED = {
    "beyond the margin": (100, 100), "size unclear": (88, 93), "less than the margin": (53, 67), "equivalent": (60, 76),
}  # fmt: skip
"""Percent, as docs/statistics.md states, over the priors."""
ALLOWED = 5.0
"""Points beyond what is stated, beside three standard errors."""


def run(context: Context) -> Report:
    """Every prior, a block at a time."""
    report = context.report("true effects", "first verdict", "questions", "the same again %", "standard error")
    counts: dict[tuple[str, str], Counter[bool]] = {}
    blocks = [(block, prior) for block in range(BLOCKS) for prior in PRIORS]
    try:
        for block, prior in context.while_time(blocks, len(blocks)):
            for first, second in repeated(prior, BLOCK, (context.seed, block)):
                grade: str = "different, and equivalent" if first.immaterial else first.grade or first.outcome
                counts.setdefault((prior, grade), Counter())[second.outcome == first.outcome] += 1
    finally:
        for (prior, grade), again in sorted(counts.items()):
            add(report, prior, grade, again)
    return report


def add(report: Report, prior: str, grade: str, again: Counter[bool]) -> None:
    """A row, and a failure where the share is further from what is stated than chance allows."""
    total = again.total()
    share, error = 100 * again[True] / total, 100 * sqrt(max(again[True], 1) * max(again[False], 1)) / total**1.5
    report.rows.append([prior, grade, str(total), f"{share:.1f}", f"{error:.1f}"])
    report.count("questions", total)
    low, high = STATED.get(grade, (0, 100))
    if not low - ALLOWED - 3 * error <= share <= high + ALLOWED + 3 * error:
        report.failures.append(f"{prior}: {grade} came again in {share:.1f} %, stated are {low} to {high}")
