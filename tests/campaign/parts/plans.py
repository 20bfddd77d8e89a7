"""How ablations that add seeds until they know end: false claims, what is found, and the runs that it takes."""

from math import sqrt

from tests.campaign.part import Context, Report
from tests.helpers.planned_worlds import SETTINGS, Ends, simulate

NAME = "plans"
DESCRIPTION = "how until=verdict ends over simulated sweeps: false claims, effects found, runs"
BLOCK, BLOCKS = 50, 100
"""Sweeps of a block, and the most blocks of each setting."""
NOMINAL, ALLOWED = 5.0, 1.0
"""Percent, and points above it: Welch's and Satterthwaite's degrees of freedom are approximations."""


def run(context: Context) -> Report:
    """Every setting, a block at a time, so that all have as many sweeps."""
    report = context.report("setting", "sweeps", "false claims %", "standard error", "ends of each arm %", "mean runs")
    ends = {name: Ends() for name in SETTINGS}
    blocks = [(block, name) for block in range(BLOCKS) for name in SETTINGS]
    try:
        for block, name in context.while_time(blocks, len(blocks)):
            simulate(SETTINGS[name], BLOCK, (context.seed, block), ends[name])
    finally:
        for name, found in ends.items():
            if found.sweeps:
                add(report, name, found)
    return report


def add(report: Report, name: str, found: Ends) -> None:
    """A row, and a failure where false claims are above what is allowed by more than three standard errors."""
    percent, error = 100 * found.alarm_rate, 100 * sqrt(NOMINAL / 100 * (1 - NOMINAL / 100) / found.sweeps)
    texts = [
        ", ".join(f"{outcome} {100 * count / found.sweeps:.0f}" for outcome, count in sorted(counts.items()))
        for counts in found.by_arm.values()
    ]
    report.rows.append(
        [name, str(found.sweeps), f"{percent:.2f}", f"{error:.2f}", "; ".join(texts), f"{found.mean_runs:.1f}"]
    )
    report.count("sweeps", found.sweeps)
    if percent > NOMINAL + ALLOWED + 3 * error:
        report.failures.append(f"{name}: {percent:.2f} % false claims, expected at most {NOMINAL + ALLOWED:g}")
