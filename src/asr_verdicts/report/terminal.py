"""Print a report in the terminal: only the answer, in 80 columns, or all tables."""

from dataclasses import replace
from textwrap import wrap

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from asr_verdicts.one_arm import lone_rates
from asr_verdicts.report.answer import answer_tables, evidence_lines, finding_lines, set_line
from asr_verdicts.report.document import Report
from asr_verdicts.report.looks import cost_lines
from asr_verdicts.report.section import Section
from asr_verdicts.terminal import VERDICT_STYLES
from asr_verdicts.terminal import console as standard_console

COLUMNS = 80  # width of the answer in characters, which fits every terminal
WARNINGS = 3  # number of warnings that the answer shows; further warnings are only counted
BEST = 5  # number of runs of a search that the answer shows


def print_answer(report: Report, console: Console | None = None) -> None:
    """Print a comparison's question, its main table, its findings, the evidence, and the warnings."""
    console, comparison = console or standard_console(), report.comparison
    question = f": {comparison.question}" if comparison.question else ""
    _paragraph(console, f"{comparison.title}{question}", style="bold")
    _paragraph(console, set_line(comparison))
    console.print()
    if tried := report.ranking:
        narrow = Table(box=None, padding=(0, 1, 0, 0))
        console.print(_table(replace(tried, rows=tried.rows[:BEST]), narrow), width=COLUMNS)
        more = len(tried.rows) - BEST
        for text in [*tried.lines, *([f"{more} more runs: --full shows them"] if more > 0 else [])]:
            _paragraph(console, text)
    else:
        for section in answer_tables(comparison):
            table = _plain_table(section)
            indent = 2 if console.measure(table).maximum <= COLUMNS - 2 else 0
            console.print(Padding(table, (0, 0, 1, indent)), width=COLUMNS)
    for noise in report.answer:
        console.print(_table(noise, Table(title=noise.heading, title_justify="left")), width=COLUMNS)
        for text in noise.lines:
            _paragraph(console, text)
    lone = [rate.sentence for rate in lone_rates(comparison)]
    scored = [f"{comparison.scored}."] if comparison.scored else []
    for text in [*finding_lines(comparison), *lone, *evidence_lines(comparison), *scored, *cost_lines(comparison)]:
        _paragraph(console, text)
    notes = [*comparison.warnings, *(f"{run.folder.name}: {run.reason}" for run in comparison.unfinished)]
    for note in notes[:WARNINGS]:
        _paragraph(console, f"! {note}", indent="  ", style="yellow")
    if len(notes) > WARNINGS:
        _paragraph(console, f"! and {len(notes) - WARNINGS} more: --full shows them", style="yellow")


def _paragraph(console: Console, text: str, indent: str = "", style: str = "") -> None:
    """Print text wrapped to COLUMNS characters, with continuation lines indented by `indent`.

    Square brackets are printed literally, not parsed as Rich markup, because an arm may be called x=[a].
    """
    for line in wrap(text, COLUMNS, subsequent_indent=indent, break_on_hyphens=False):
        console.print(Text(line, style=style), soft_wrap=True)


def _plain_table(section: Section) -> Table:
    """Return a table without rules between columns. Only the first column, which contains names, may wrap."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="", pad_edge=False)
    for number, head in enumerate(section.head):
        left = not number or head in ("verdict", "interval") or head.startswith("to ")
        table.add_column(head, justify="left" if left else "right", overflow="fold", no_wrap=number > 0)
    for cells in section.rows:
        table.add_row(*map(Text, cells[:-1]), Text(cells[-1], style=VERDICT_STYLES.get(cells[-1], "")))
    return table


def print_comparison(report: Report, console: Console | None = None) -> None:
    """Print a report's title, question and all sections."""
    console, comparison = console or standard_console(), report.comparison
    title = f"{comparison.title}: {comparison.question}" if comparison.question else comparison.title
    console.print(title, markup=False, soft_wrap=True)
    for section in report.sections:
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
        table.add_row(*map(Text, row))  # not parsed as markup, because an arm may be called x=[a]
    return table
