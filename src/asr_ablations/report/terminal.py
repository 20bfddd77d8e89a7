"""A comparison in the terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from asr_ablations.comparison.result import Comparison
from asr_ablations.report.sections import sections


def print_comparison(comparison: Comparison, console: Console | None = None) -> None:
    """All sections; the verdicts come first."""
    console = console or Console(highlight=False)
    if not console.is_terminal:
        console.width = 160  # a log file has no width of its own, and 80 would fold the names
    told = f"{comparison.title}: {comparison.question}" if comparison.question else comparison.title
    console.print(told, markup=False, soft_wrap=True)
    for section in sections(comparison):
        console.print(f"\n{section.heading}", markup=False, soft_wrap=True)
        if section.rows:
            table = Table()
            for number, column in enumerate(section.head):
                table.add_column(column, justify="right" if number else "left", overflow="fold")
            for row in section.rows:
                table.add_row(*map(Text, row))  # as it is: an arm may be called x=[a]
            console.print(table)
        for line in section.lines:
            console.print(line if section.rows else f"  {line}", markup=False, soft_wrap=not section.rows)
