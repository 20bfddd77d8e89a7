"""A section of a report: a heading with a table and lines of text, which each output format shows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True)
class Section:
    """A heading with a table, lines of text, or both."""

    heading: str
    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def tabulate(
    heading: str, rows: Sequence[Row], columns: Mapping[str, Callable[[Row], str]], lines: Sequence[str] = ()
) -> Section:
    """Build a section with a table. columns: function from a row to its cell, by heading. It is empty without rows."""
    cells = [[cell(row) for cell in columns.values()] for row in rows]
    return Section(heading, [*columns], cells, [*lines] if rows else [])


def spread(mean: float | None, deviation: float | None, places: int) -> str:
    """Format mean ± standard deviation. A mean of None is NA, and a single value has no ±."""
    if mean is None:
        return "NA"
    text = f"{mean:,.{places}f}"
    return text if deviation is None else f"{text} ± {deviation:,.{places}f}"


def number(value: float | int | None, places: int = 0) -> str:
    """Format an int as it is, other numbers with this number of decimal places, and None as NA."""
    return "NA" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.{places}f}"


def mean(values: Sequence[float | None], places: int) -> str:
    """Format the mean of the values; NA if a value is missing."""
    present = [value for value in values if value is not None]
    return f"{sum(present) / len(present):,.{places}f}" if present and len(present) == len(values) else "NA"
