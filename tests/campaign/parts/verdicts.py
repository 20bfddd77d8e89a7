"""False alarms and power of verdicts, in every kind of sweep and with many seeds, few speakers and many looks."""

from math import sqrt

from tests.campaign.part import Context, Report
from tests.helpers.false_alarms import DESIGNS, ONE_CHECKPOINT, alarms, finds

NAME = "verdicts"
DESCRIPTION = "how often verdicts call equal arms different, and find an effect, over simulated sweeps"
BLOCK, BLOCKS = 100, 100
"""Sweeps of a block; with all 10,000 an alarm rate of 5 % is measured with a standard error of 0.22 points."""
NOMINAL, ALLOWED = 5.0, 1.0
"""Percent, and points above it: Welch's and Satterthwaite's degrees of freedom are approximations."""
UNSEEN = 30.0
"""Percent: with fewer false alarms, seeds of one checkpoint would need no warning."""
EVERY = {**DESIGNS, **ONE_CHECKPOINT}


def run(context: Context) -> Report:
    """Every design, a block at a time, so that all have as many sweeps; an effect in a fifth as many."""
    report = context.report("sweep", "sweeps", "false alarms %", "standard error", "effect", "found %")
    alarmed = dict.fromkeys(EVERY, (0, 0))
    found = dict.fromkeys(EVERY, (0, 0))
    blocks = [(block, name) for block in range(BLOCKS) for name in EVERY]
    try:
        for block, name in context.while_time(blocks, len(blocks)):
            count, sweeps = alarmed[name]
            alarmed[name] = count + alarms(EVERY[name], BLOCK, (context.seed, block, 0)), sweeps + BLOCK
            count, sweeps = found[name]
            found[name] = count + finds(EVERY[name], BLOCK // 5, (context.seed, block, 1)), sweeps + BLOCK // 5
    finally:
        for name in EVERY:
            if found[name][1]:
                add(report, name, alarmed[name], found[name])
    return report


def add(report: Report, name: str, alarmed: tuple[int, int], found: tuple[int, int]) -> None:
    """A row, and a failure if false alarms are above what is allowed by more than three standard errors, or if seeds of
    one checkpoint have too few.
    """
    count, sweeps = alarmed
    percent, error = 100 * count / sweeps, 100 * sqrt(NOMINAL / 100 * (1 - NOMINAL / 100) / sweeps)
    effect, power = 100 * EVERY[name].effect, 100 * found[0] / found[1]
    report.rows.append([name, str(sweeps), f"{percent:.2f}", f"{error:.2f}", f"{effect:g} WER", f"{power:.0f}"])
    report.count("sweeps", sweeps)
    if name in ONE_CHECKPOINT:
        if percent < UNSEEN:
            report.failures.append(f"{name}: {percent:.2f} % false alarms, expected at least {UNSEEN:g}")
    elif percent > NOMINAL + ALLOWED + 3 * error:
        report.failures.append(f"{name}: {percent:.2f} % false alarms, expected at most {NOMINAL + ALLOWED:g}")
