"""A comparison in the terminal: the answer in 80 columns, or every table."""

from dataclasses import replace
from textwrap import wrap

from rich.console import Console
from rich.table import Table
from rich.text import Text

from asr_verdicts.comparison import Comparison
from asr_verdicts.metrics import Metric, find_metric, format_interval
from asr_verdicts.one_arm import lone_rates
from asr_verdicts.report.document import Report
from asr_verdicts.report.looks import cost_line
from asr_verdicts.report.section import Section
from asr_verdicts.table_columns import TableRow, rate_rows, value_of
from asr_verdicts.terminal import VERDICT_STYLES
from asr_verdicts.terminal import console as standard_console
from asr_verdicts.verdict import Verdict

COLUMNS = 80
"""Width of the answer, which fits every terminal."""
WARNINGS = 3
"""Warnings that the answer shows; the rest is counted."""
BEST = 5
"""Runs of a search that the answer shows."""


def print_answer(report: Report, console: Console | None = None) -> None:
    """Print the question, a verdict for each of its contrasts, one table, and what a reader has to be warned of."""
    console, comparison = console or standard_console(), report.comparison
    _paragraph(console, comparison.question or comparison.title, style="bold")
    for verdict in comparison.answer:
        _paragraph(console, verdict.sentence, indent="  ", style=VERDICT_STYLES.get(verdict.outcome, ""))
    for lone in lone_rates(comparison):
        _paragraph(console, lone.sentence, indent="  ")
    console.print()
    if tried := report.ranking:
        narrow = Table(box=None, padding=(0, 1, 0, 0))
        console.print(_table(replace(tried, rows=tried.rows[:BEST]), narrow), width=COLUMNS)
        for text in tried.lines:
            _paragraph(console, text)
        if (more := len(tried.rows) - BEST) > 0:
            _paragraph(console, f"{more} more runs: --full shows them")
    else:
        console.print(_answer_table(comparison), width=COLUMNS)
    for noise in report.answer:
        console.print(_table(noise, Table(title=noise.heading, title_justify="left")), width=COLUMNS)
        for text in noise.lines:
            _paragraph(console, text)
    evidence = comparison.evidence
    if comparison.answer:
        _paragraph(console, f"{evidence.procedure.test}: {evidence.reason} (look {evidence.look}).")
    if comparison.scored:
        _paragraph(console, f"{comparison.scored}.")
    if (line := cost_line(comparison)) is not None:
        _paragraph(console, line)
    notes = [*comparison.warnings, *(f"{run.folder.name}: {run.reason}" for run in comparison.unfinished)]
    for note in notes[:WARNINGS]:
        _paragraph(console, f"! {note}", indent="  ", style="yellow")
    if len(notes) > WARNINGS:
        _paragraph(console, f"! and {len(notes) - WARNINGS} more: --full shows them", style="yellow")


def _paragraph(console: Console, text: str, indent: str = "", style: str = "") -> None:
    """Text in lines of at most COLUMNS, later ones indented. Not as markup: an arm may be called x=[a]."""
    for line in wrap(text, COLUMNS, subsequent_indent=indent, break_on_hyphens=False):
        console.print(Text(line, style=style), soft_wrap=True)


def _answer_table(comparison: Comparison) -> Table:
    """An arm per row: its rate on the primary set, and its difference from the baseline with the verdict's interval."""
    metric = find_metric(comparison.metric)
    table = Table(title=f"{metric.heading} on {comparison.set}, mean ± sd over n runs", title_justify="left")
    for number, column in enumerate(("arm", "n", metric.heading, "difference", "verdict")):
        table.add_column(column, justify="right" if number in (1, 2, 3) else "left", overflow="fold")
    by_arm = {verdict.arm: verdict for verdict in comparison.answer if verdict.question.kind == "arm"}
    for row in (row for row in rate_rows(comparison) if row["set"] == comparison.set):
        arm = str(row["arm"])
        verdict = by_arm.get(arm)
        cells = [arm, str(row["n"]), _spread(row, metric)]
        if verdict is None:
            table.add_row(*map(Text, [*cells, "", "baseline" if arm == comparison.baseline else ""]))
            continue
        difference = _difference(verdict, metric)
        table.add_row(
            *map(Text, [*cells, difference]), Text(verdict.outcome, style=VERDICT_STYLES.get(verdict.outcome, ""))
        )
    for verdict in comparison.answer:
        if verdict.question.kind != "arm":
            difference = _difference(verdict, metric)
            name = f"{verdict.question.kind}: {verdict.arm}"
            style = VERDICT_STYLES.get(verdict.outcome, "")
            table.add_row(Text(name), "", "", Text(difference), Text(verdict.outcome, style=style))
    return table


def _difference(verdict: Verdict, metric: Metric) -> str:
    interval = format_interval(verdict.low, verdict.high, metric)
    return f"{metric.text(verdict.difference, sign=True)}\n{interval}"


def _spread(row: TableRow, metric: Metric) -> str:
    return metric.spread(value_of(row, metric.name), value_of(row, f"{metric.name}_sd"))


def print_comparison(report: Report, console: Console | None = None) -> None:
    """Print all sections; the verdicts come first."""
    console, comparison = console or standard_console(), report.comparison
    title = f"{comparison.title}: {comparison.question}" if comparison.question else comparison.title
    console.print(title, markup=False, soft_wrap=True)
    for section in report.sections:
        print_section(section, console)


def print_section(section: Section, console: Console | None = None) -> None:
    """Print a heading with its table and lines."""
    console = console or standard_console()
    console.print(f"\n{section.heading}", markup=False, soft_wrap=True)
    if section.rows:
        console.print(_table(section))
    for line in section.lines:
        console.print(line if section.rows else f"  {line}", markup=False, soft_wrap=not section.rows)


def _table(section: Section, table: Table | None = None) -> Table:
    table = table or Table()
    for number, column in enumerate(section.head):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in section.rows:
        table.add_row(*map(Text, row))  # not as markup: an arm may be called x=[a]
    return table
