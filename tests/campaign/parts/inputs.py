"""Bad input at full width: wrong keys, values, paths, files and damaged run folders over every command."""

import random

from tests.campaign.input_table import read_table
from tests.campaign.part import Context, Report
from tests.campaign.typed import try_cases

NAME = "inputs"
DESCRIPTION = "bad input to every command: one line, the right exit code, no traceback, nothing executed"
CONTINUES = True


def run(context: Context) -> Report:
    """Every row of the table in a random order, so that a short campaign sees all commands."""
    cases = read_table()
    random.Random(context.seed).shuffle(cases)
    return try_cases(context, cases, "command")
