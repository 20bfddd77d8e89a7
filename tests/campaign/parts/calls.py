"""Bad input at full width by direct calls: damages × files × readers, checkpoints, lines, models, recordings."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.campaign.bad_files import bad_files
from tests.campaign.damages import damaged_checkpoints, damaged_runs
from tests.campaign.direct import Call, outcome
from tests.campaign.input_table import FINE, OUTCOMES
from tests.campaign.part import Context, Report

NAME = "calls"
DESCRIPTION = "bad input by direct calls: one line that names it, or left out by name; nothing executed"
SOURCES: tuple[Callable[[Path], Iterator[Call]], ...] = (damaged_runs, damaged_checkpoints, bad_files)


def every_call(folder: Path) -> list[Call]:
    """All cases; what they start from is written into the folder."""
    return [call for source in SOURCES for call in source(folder / source.__name__)]


def run(context: Context) -> Report:
    """Every case in a random order, so that a short campaign sees all kinds."""
    report = context.report("kind", "cases", *OUTCOMES)
    calls = every_call(context.folder)
    random.Random(context.seed).shuffle(calls)
    outcomes: Counter[tuple[str, str]] = Counter()
    for call in context.while_time(calls, len(calls)):
        ended, said = outcome(call)
        outcomes[call.kind, ended] += 1
        report.count("cases")
        report.count(ended)
        if ended != FINE:
            report.failures.append(f"{call.kind}: {call.name}: {ended}: {said}")
            report.cases.append({"case": call.name, "outcome": ended, "detail": said})
    for kind in sorted({kind for kind, _ in outcomes}):
        counts = [outcomes[kind, ended] for ended in OUTCOMES]
        report.rows.append([kind, str(sum(counts)), *map(str, counts)])
    report.failures.sort()
    if skipped := len(calls) - report.counts["cases"]:
        report.count("not tried", skipped)
    return report
