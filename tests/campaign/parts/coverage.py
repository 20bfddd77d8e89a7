"""Coverage of the interval over speakers: how often it holds the truth, at full width."""

from math import sqrt

from tests.campaign.part import Context, Report
from tests.helpers.interval_coverage import CARRIED_BY_FEW, SCENARIOS, hits

NAME = "coverage"
DESCRIPTION = "how often the 95 % interval over speakers holds the truth, over simulated test sets"
SPEAKERS = (5, 10, 20, 40, 80)
BLOCK, BLOCKS = 1000, 20
"""Trials of a block; with all 20,000 a coverage of 95 % is measured with a standard error of 0.15 points."""
NOMINAL, ALLOWED = 95.0, 2.0
"""Percent, and points by which the coverage may differ: the promise of speaker_interval's docstring."""
FEW = (85.0, 93.0)
"""Percent where few speakers carry the difference: the known limit."""
Cell = tuple[str, int]


def run(context: Context) -> Report:
    """Every scenario with every number of speakers, a block at a time, so that all have as many trials."""
    report = context.report("scenario", "speakers", "trials", "coverage %", "standard error", "expected %")
    cells = [(name, speakers) for name in (*SCENARIOS, "few speakers carry it") for speakers in SPEAKERS]
    found = dict.fromkeys(cells, (0, 0))
    blocks = [(block, cell) for block in range(BLOCKS) for cell in cells]
    try:
        for block, cell in context.while_time(blocks, len(blocks)):
            held, trials = found[cell]
            scenario = SCENARIOS.get(cell[0], CARRIED_BY_FEW)
            found[cell] = (held + hits(scenario, cell[1], BLOCK, (context.seed, cell[1], block)), trials + BLOCK)
    finally:
        for cell, (held, trials) in found.items():
            if trials:
                add(report, cell, 100 * held / trials, trials)
    return report


def add(report: Report, cell: Cell, percent: float, trials: int) -> None:
    """A row, and a failure where the coverage is outside the promise by more than three standard errors."""
    name, speakers = cell
    low, high = (NOMINAL - ALLOWED, NOMINAL + ALLOWED) if name in SCENARIOS else FEW
    error = 100 * sqrt(NOMINAL / 100 * (1 - NOMINAL / 100) / trials)
    report.rows.append(
        [name, str(speakers), str(trials), f"{percent:.2f}", f"{error:.2f}", f"{low:g} to {high:g}"],
    )
    report.count("trials", trials)
    if not low - 3 * error <= percent <= high + 3 * error:
        report.failures.append(f"{name}, {speakers} speakers: {percent:.2f} %, expected {low:g} to {high:g}")
