"""A report's sections, each with a heading, a table and sentences, which every output format prints in its own way."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True)
class Section:
    """A report section: a heading with a table, with lines of text, or with both."""

    heading: str
    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def tabulate(
    heading: str, rows: Sequence[Row], columns: Mapping[str, Callable[[Row], str]], lines: Sequence[str] = ()
) -> Section:
    """Build a section with a table; empty if there are no rows. columns: by heading, a function that formats a cell."""
    cells = [[cell(row) for cell in columns.values()] for row in rows]
    return Section(heading, [*columns], cells, [*lines] if rows else [])


def spread(mean: float | None, deviation: float | None, places: int) -> str:
    """Format a mean ± standard deviation, the mean alone if the deviation is None, or NA if the mean is None."""
    if mean is None:
        return "NA"
    text = f"{mean:,.{places}f}"
    return text if deviation is None else f"{text} ± {deviation:,.{places}f}"


def number(value: float | int | None, places: int = 0) -> str:
    """Format an int without decimals, a float with `places` decimals, and None as NA."""
    return "NA" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.{places}f}"


def mean(values: Sequence[float | None], places: int) -> str:
    """Format the mean of the values; NA if a value is None or there are no values."""
    present = [value for value in values if value is not None]
    return f"{sum(present) / len(present):,.{places}f}" if present and len(present) == len(values) else "NA"
