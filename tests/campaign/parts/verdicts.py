"""False alarms and power of verdicts, in every kind of sweep and with many seeds, few speakers and many looks."""

from math import sqrt

from tests.campaign.part import Context, Report
from tests.helpers.false_alarms import DESIGNS, alarms, finds

NAME = "verdicts"
DESCRIPTION = "how often verdicts call equal arms different, and find an effect, over simulated sweeps"
BLOCK, BLOCKS = 100, 100
"""Sweeps of a block; with all 10,000 an alarm rate of 5 % is measured with a standard error of 0.22 points."""
NOMINAL, ALLOWED = 5.0, 1.0
"""Percent, and points above it: Welch's and Satterthwaite's degrees of freedom are approximations."""


def run(context: Context) -> Report:
    """Every design, a block at a time, so that all have as many sweeps; an effect in a fifth as many."""
    report = context.report("sweep", "sweeps", "false alarms %", "standard error", "effect", "found %")
    alarmed = dict.fromkeys(DESIGNS, (0, 0))
    found = dict.fromkeys(DESIGNS, (0, 0))
    blocks = [(block, name) for block in range(BLOCKS) for name in DESIGNS]
    try:
        for block, name in context.while_time(blocks, len(blocks)):
            count, sweeps = alarmed[name]
            alarmed[name] = count + alarms(DESIGNS[name], BLOCK, (context.seed, block, 0)), sweeps + BLOCK
            count, sweeps = found[name]
            found[name] = count + finds(DESIGNS[name], BLOCK // 5, (context.seed, block, 1)), sweeps + BLOCK // 5
    finally:
        for name in DESIGNS:
            if found[name][1]:
                add(report, name, alarmed[name], found[name])
    return report


def add(report: Report, name: str, alarmed: tuple[int, int], found: tuple[int, int]) -> None:
    """A row, and a failure where false alarms are above what is allowed by more than three standard errors."""
    count, sweeps = alarmed
    percent, error = 100 * count / sweeps, 100 * sqrt(NOMINAL / 100 * (1 - NOMINAL / 100) / sweeps)
    effect, power = 100 * DESIGNS[name].effect, 100 * found[0] / found[1]
    report.rows.append([name, str(sweeps), f"{percent:.2f}", f"{error:.2f}", f"{effect:g} WER", f"{power:.0f}"])
    report.count("sweeps", sweeps)
    if percent > NOMINAL + ALLOWED + 3 * error:
        report.failures.append(f"{name}: {percent:.2f} % false alarms, expected at most {NOMINAL + ALLOWED:g}")
