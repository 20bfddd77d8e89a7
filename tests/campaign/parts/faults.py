"""Small faults planted in a copy of the source, and how many of them the tests catch."""

from asr_ablations.tools.files import REPOSITORY
from tests.campaign.fault_places import draw
from tests.campaign.part import Context, Report
from tests.campaign.planted_faults import COLUMNS, measure, read_record, survivors, table

NAME = "faults"
DESCRIPTION = "small faults planted in the source one at a time, and how many of them the tests catch"
FAULTS, EXPECTED = 100, 0.8


def run(context: Context) -> Report:
    """Every fault of the draw, one at a time."""
    report = context.report(*COLUMNS)
    record = context.folder / "faults.jsonl"
    try:
        measure(REPOSITORY, context.while_time(draw(REPOSITORY, FAULTS, context.seed), FAULTS), record, processes=1)
    finally:
        report.cases = read_record(record)
        report.rows, missed = table(report.cases), survivors(report.cases)
        report.count("faults", len(report.cases))
        report.count("not caught", len(missed))
        if len(missed) > (1 - EXPECTED) * len(report.cases):
            report.failures = missed
    return report
