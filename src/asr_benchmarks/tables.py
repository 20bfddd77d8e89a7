"""A benchmark's result as tables: on the terminal, in Markdown, and several results side by side.

A result is a dictionary: lists of rows (dictionaries of the same keys) are tables; `notes` are lines, `plots` what
asr_benchmarks.plots draws, `relative` the columns of tables that are told in % of the first result's where
several stand side by side; whatever else stands there is a single figure. Tables whose name begins with PUBLISHED are
the papers', the same for every machine.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from asr_ablations.report.markdown import table as pipe_table

OTHERS = ("notes", "plots", "machine", "relative")
PUBLISHED = "published"


def tables(found: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The tables of a result, its single figures first."""
    figures = [{"figure": key, "value": value} for key, value in found.items() if _single(key, value)]
    rows = {key: value for key, value in found.items() if isinstance(value, list) and key not in OTHERS and value}
    return {**({"figures": figures} if figures else {}), **rows}


def show(title: str, found: Mapping[str, Any]) -> None:
    """On the terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 140
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
    decimal column once a result, its name behind it. What papers published stands there once.
    """
    each = {name: tables(found) for name, found in results.items()}
    titles = dict.fromkeys(title for one in each.values() for title in one)
    relative = {title: columns for one in results.values() for title, columns in one.get("relative", {}).items()}
    joined = {}
    for title in titles:
        found = {name: one.get(title, []) for name, one in each.items()}
        once = title.startswith(PUBLISHED)
        joined[title] = next(filter(None, found.values())) if once else _joined(found, relative.get(title, ()))
    return joined


def text(value: Any) -> str:
    """Decimal numbers to four digits, larger ones whole, nothing as a dash."""
    if value is None:
        return "–"
    if isinstance(value, float) and 1e4 <= abs(value) < 1e9:
        return f"{value:.0f}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _single(key: str, value: Any) -> bool:
    return key not in OTHERS and not isinstance(value, (list, dict))


def _joined(tables: Mapping[str, list[dict[str, Any]]], relative: Sequence[str]) -> list[dict[str, Any]]:
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
        if key in relative:
            _relate(list(found.values()), key, list(tables))
    return list(found.values())


def _relate(rows: Sequence[dict[str, Any]], key: str, names: Sequence[str]) -> None:
    """The column of every other result in % of the first's; None where one of the two has nothing."""
    for row in rows:
        base = row[f"{key} {names[0]}"]
        for name in names[1:]:
            value = row[f"{key} {name}"]
            row[f"{key} {name}, % of {names[0]}"] = 100 * value / base if base and value is not None else None


def _place(row: Mapping[str, Any], named: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(row.get(key)) for key in named)
