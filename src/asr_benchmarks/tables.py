"""A benchmark's result as tables: in the terminal, in Markdown, and several results side by side."""

from collections.abc import Mapping, Sequence

from rich import table as rich_table

from asr_ablations.report.markdown import table as markdown_table
from asr_ablations.tools.terminal import console
from asr_benchmarks.result import PUBLISHED, Result, Row, Table


def tables(result: Result) -> dict[str, Table]:
    """The tables of a result that have rows; its single figures are the first."""
    figures = [{"figure": name, "value": value} for name, value in result.figures.items()]
    return {name: rows for name, rows in {"figures": figures, **result.tables}.items() if rows}


def show(title: str, result: Result) -> None:
    """Print the tables and notes of a result."""
    terminal = console()
    terminal.print(title, soft_wrap=True, markup=False, style="bold")
    for name, rows in tables(result).items():
        heading = None if name == "figures" else _words(name)
        shown = rich_table.Table(title=heading, title_justify="left")
        for number, column in enumerate(rows[0]):
            shown.add_column(_words(column), justify="right" if number else "left")
        for row in rows:
            shown.add_row(*map(text, row.values()))
        terminal.print(shown)
    for line in result.notes:
        terminal.print(f"note: {line}", soft_wrap=True, markup=False)


def markdown(title: str, result: Result, figures: Sequence[str] = ()) -> str:
    """The report of a result. figures: file names of the plots beside it."""
    parts = [f"# {title}"]
    if result.machine:
        parts.append("\n".join(f"- {key}: {value}" for key, value in result.machine.items()))
    for name, rows in tables(result).items():
        cells = [list(map(text, row.values())) for row in rows]
        parts += [f"## {_words(name)}", markdown_table(list(map(_words, rows[0])), cells)]
    if result.notes:
        parts.append("\n".join(f"- {line}" for line in result.notes))
    parts += [f"![{name.rpartition('.')[0]}]({name})" for name in figures]
    return "\n\n".join(parts) + "\n"


def join_tables(results: Mapping[str, Result]) -> dict[str, Table]:
    """The tables that any of the results has, each once for all results.

    Rows are matched by the columns that hold no decimal numbers; each decimal column stands once per result, with the
    result's name behind its own. The numbers of a paper stand only once: they are the same for all.
    """
    tables_of = {name: tables(result) for name, result in results.items()}
    titles = dict.fromkeys(title for by_title in tables_of.values() for title in by_title)
    relative = {title: columns for result in results.values() for title, columns in result.relative.items()}
    joined: dict[str, Table] = {}
    for title in titles:
        same = {name: by_title.get(title, []) for name, by_title in tables_of.items()}
        joined[title] = _joined(same, relative.get(title, ()), title.startswith(PUBLISHED))
    return joined


def text(value: object) -> str:
    """A value as a table shows it: decimal numbers with four digits, large ones whole, None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
    return str(value)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _joined(table_of: Mapping[str, Table], relative: Sequence[str], published: bool) -> Table:
    """The tables of several results, by the results' names, as one. published: columns that are the same stand once."""
    every = [row for rows in table_of.values() for row in rows]
    columns = list(dict.fromkeys(column for row in every for column in row))
    measured = [column for column in columns if any(isinstance(row.get(column), float) for row in every)]
    named = [column for column in columns if column not in measured]
    joined: dict[tuple[str, ...], dict[str, object]] = {}
    for row in every:
        joined.setdefault(_place(row, named), {column: row.get(column) for column in named})
    for column in measured:
        values = {name: {_place(row, named): row.get(column) for row in rows} for name, rows in table_of.items()}
        if published and (printed := _same([own for own in values.values() if own])) is not None:
            for place, cells in joined.items():
                cells[column] = printed[place]
            continue
        for name, own in values.items():
            for place, cells in joined.items():
                cells[f"{column} {name}"] = own.get(place)
        if column in relative:
            _relate(list(joined.values()), column, list(table_of))
    return list(joined.values())


def _same(columns: Sequence[dict[tuple[str, ...], object]]) -> dict[tuple[str, ...], object] | None:
    """The column that all are, None where they differ."""
    return columns[0] if all(column == columns[0] for column in columns) else None


def _relate(rows: Sequence[dict[str, object]], column: str, names: Sequence[str]) -> None:
    """Add the column of every other result in % of the first's; None where one of the two has no number."""
    for row in rows:
        base = row[f"{column} {names[0]}"]
        for name in names[1:]:
            row[f"{column} {name}, % of {names[0]}"] = _percent(row[f"{column} {name}"], base)


def _percent(value: object, base: object) -> float | None:
    if not base or not isinstance(value, (int, float)) or not isinstance(base, (int, float)):
        return None
    return 100 * value / base


def _place(row: Row, named: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(row.get(column)) for column in named)
