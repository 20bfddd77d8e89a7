"""A comparison in the terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from asr_ablations.comparison.result import Comparison
from asr_ablations.report.section import Section
from asr_ablations.report.sections import sections
from asr_ablations.tools.terminal import console as standard_console


def print_comparison(comparison: Comparison, console: Console | None = None) -> None:
    """Print all sections; the verdicts come first."""
    console = console or standard_console()
    title = f"{comparison.title}: {comparison.question}" if comparison.question else comparison.title
    console.print(title, markup=False, soft_wrap=True)
    for section in sections(comparison):
        console.print(f"\n{section.heading}", markup=False, soft_wrap=True)
        if section.rows:
            console.print(_table(section))
        for line in section.lines:
            console.print(line if section.rows else f"  {line}", markup=False, soft_wrap=not section.rows)


def _table(section: Section) -> Table:
    table = Table()
    for number, column in enumerate(section.head):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in section.rows:
        table.add_row(*map(Text, row))  # not as markup: an arm may be called x=[a]
    return table
