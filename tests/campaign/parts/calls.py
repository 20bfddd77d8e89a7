"""Bad input at full width by direct calls: damages × files × readers, checkpoints, lines, models, recordings."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.campaign.bad_files import bad_files
from tests.campaign.damages import damaged_checkpoints, damaged_runs
from tests.campaign.direct import Call, outcome
from tests.campaign.input_table import FINE, OUTCOMES
from tests.campaign.part import Context, Report
from tests.campaign.typed import Tried

NAME = "calls"
CONTINUES = True
DESCRIPTION = "bad input by direct calls: one line that names it, or left out by name; nothing executed"
SOURCES: tuple[Callable[[Path], Iterator[Call]], ...] = (damaged_runs, damaged_checkpoints, bad_files)


def every_call(folder: Path) -> list[Call]:
    """All cases; what they start from is written into the folder."""
    return [call for source in SOURCES for call in source(folder / source.__name__)]


def run(context: Context) -> Report:
    """Every case in a random order, so that a short campaign sees all kinds."""
    report = context.report("kind", "cases", *OUTCOMES)
    tried = Tried(context, report, (FINE,))
    calls = every_call(context.folder)
    random.Random(context.seed).shuffle(calls)
    try:
        for call in tried.left(calls, _name):
            ended, said = outcome(call)
            tried.add(_name(call), call.kind, ended, said)
    finally:
        tried.close(OUTCOMES)
    return report


def _name(call: Call) -> str:
    return f"{call.kind}: {call.name}"
