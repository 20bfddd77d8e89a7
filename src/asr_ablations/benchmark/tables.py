"""A benchmark's result as tables: on the terminal, in Markdown, and several results side by side.

A result is a dictionary: lists of rows (dictionaries of the same keys) are tables; `notes` are lines, `plots` what
asr_ablations.benchmark.plots draws; whatever else stands there is a single figure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from asr_ablations.report.markdown import table as pipe_table

OTHERS = ("notes", "plots", "machine")


def tables(found: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The tables of a result, its single figures first."""
    figures = [{"figure": key, "value": value} for key, value in found.items() if _single(key, value)]
    rows = {key: value for key, value in found.items() if isinstance(value, list) and key not in OTHERS and value}
    return {**({"figures": figures} if figures else {}), **rows}


def show(title: str, found: Mapping[str, Any]) -> None:
    """On the terminal."""
    console = Console(highlight=False)
    console.print(title, soft_wrap=True, markup=False, style="bold")
    for key, rows in tables(found).items():
        made = Table(title=None if key == "figures" else key.replace("_", " "), title_justify="left")
        for number, column in enumerate(rows[0]):
            made.add_column(column.replace("_", " "), justify="right" if number else "left")
        for row in rows:
            made.add_row(*map(text, row.values()))
        console.print(made)
    for line in found.get("notes", []):
        console.print(f"note: {line}", soft_wrap=True, markup=False)


def markdown(title: str, found: Mapping[str, Any], figures: Sequence[str] = ()) -> str:
    """The report of one result. figures: names of the files beside it."""
    parts = [f"# {title}"]
    if machine := found.get("machine"):
        parts.append("\n".join(f"- {key}: {value}" for key, value in machine.items()))
    for key, rows in tables(found).items():
        head = [name.replace("_", " ") for name in rows[0]]
        parts += [f"## {key.replace('_', ' ')}", pipe_table(head, [list(map(text, row.values())) for row in rows])]
    if notes := found.get("notes"):
        parts.append("\n".join(f"- {line}" for line in notes))
    parts += [f"![{name.rpartition('.')[0]}]({name})" for name in figures]
    return "\n\n".join(parts) + "\n"


def side_by_side(results: Mapping[str, Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """For each table that any of the results has: rows matched by the columns that hold no decimal numbers, and each
    decimal column once a result, its name behind it.
    """
    each = {name: tables(found) for name, found in results.items()}
    titles = dict.fromkeys(title for one in each.values() for title in one)
    return {title: _joined({name: one.get(title, []) for name, one in each.items()}) for title in titles}


def text(value: Any) -> str:
    """Decimal numbers to four digits, nothing as a dash."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _single(key: str, value: Any) -> bool:
    return key not in OTHERS and not isinstance(value, (list, dict))


def _joined(tables: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    columns = list(dict.fromkeys(key for rows in tables.values() for row in rows for key in row))
    every = [row for rows in tables.values() for row in rows]
    measured = [key for key in columns if any(isinstance(row.get(key), float) for row in every)]
    named = [key for key in columns if key not in measured]
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in every:
        found.setdefault(_place(row, named), {key: row.get(key) for key in named})
    for key in measured:
        for name, rows in tables.items():
            values = {_place(row, named): row.get(key) for row in rows}
            for place, row in found.items():
                row[f"{key} {name}"] = values.get(place)
    return list(found.values())


def _place(row: Mapping[str, Any], named: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(row.get(key)) for key in named)
