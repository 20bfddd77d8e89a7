"""Small faults planted in a copy of the source, and how many of them the tests catch."""

from asr_ablations.tools.files import REPOSITORY
from tests.campaign.fault_places import draw
from tests.campaign.part import Context, Report
from tests.campaign.planted_faults import CAUGHT, COLUMNS, HANG, described, measure, prove, read_record, table, untried

NAME = "faults"
DESCRIPTION = "small faults planted in the source one at a time, and how many of them the tests catch"
CONTINUES = True
FAULTS, EXPECTED = 100, 0.8


def run(context: Context) -> Report:
    """Every fault of the draw, one at a time. The record beside the folder of the part outlives an interruption."""
    report = context.report(*COLUMNS)
    record = context.folder.with_name(f"{NAME}.jsonl")
    faults = draw(REPOSITORY, FAULTS, context.seed)
    left = untried(faults, record)
    try:
        measure(REPOSITORY, context.while_time(left, len(left)), record, processes=1)
        prove(REPOSITORY, record)
    finally:
        report.cases = read_record(record)
        report.rows = table(report.cases)
        survivors = [described(line) for line in report.cases if line["outcome"] not in (CAUGHT, HANG)]
        report.count("faults", len(report.cases))
        report.count("not caught", len(survivors))
        if untried(faults, record):
            report.count("not tried", len(untried(faults, record)))
        if len(survivors) > (1 - EXPECTED) * len(report.cases):
            report.failures = survivors
    return report
