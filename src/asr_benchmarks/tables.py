"""A benchmark's result as tables: in the terminal, in Markdown, and several results side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from rich import table as rich_table

from asr_ablations.runs.layout import COMPARISON, OVERRIDES, REPORT, RESULT
from asr_ablations.runs.reader import read_overrides
from asr_ablations.sweep.live import print_arms, what_varies
from asr_ablations.tools.files import read_json, typed
from asr_benchmarks.plots import Plot, draw
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json, write, write_json
from asr_verdicts.report.formats import table as markdown_table
from asr_verdicts.terminal import console

Row: TypeAlias = Mapping[str, object]
"""A row of a table, by column: text, a number, or None where a value is not known."""

Table: TypeAlias = Sequence[Row]

PUBLISHED = "published"
"""How the names of tables and lines begin that hold the numbers of a paper, the same for every machine."""

FRAMEWORKS = ("python", "torch", "jax", "keras", "tensorflow", "tensorflow-cpu", "returnn")
"""What a result's machine says the version of, where it is installed."""


def published(name: str) -> Any:
    """The content of published/<name>.yaml: numbers that a paper printed. Measurements in it are decimal numbers, since
    tables match rows by the others.
    """
    return yaml.safe_load((Path(__file__).parent / "published" / f"{name}.yaml").read_text(encoding="utf-8"))


@dataclass
class Result:
    """The measurements of a benchmark.

    figures: single values by name; tables: rows by the table's name; notes: lines for the reader; machine: what it was
    measured on. relative: the columns of a table that are also shown in % of the first result's where several results
    stand side by side.
    """

    figures: dict[str, object] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    relative: dict[str, list[str]] = field(default_factory=dict)
    machine: dict[str, object] = field(default_factory=dict)

    def to_json(self) -> Json:
        """The content of result.json: figures and tables by name, then the other fields."""
        others = {name: getattr(self, name) for name in OTHERS}
        return {**self.figures, **self.tables, **others}

    @classmethod
    def from_json(cls, content: Json) -> "Result":
        """The result that a result.json holds: lists are tables, single values are figures."""
        own = {key: value for key, value in content.items() if key not in OTHERS}
        return cls(
            figures={key: value for key, value in own.items() if not isinstance(value, (list, dict))},
            tables={key: value for key, value in own.items() if isinstance(value, list)},
            **{key: value for key, value in content.items() if key in OTHERS},
        )


OTHERS = ("notes", "plots", "relative", "machine")
"""The fields of a result that result.json holds under their own names."""


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


def results(path: Path) -> list[Path]:
    """The result files under a path: the file itself, that of a run, or those of all runs of a sweep; empty if there
    are none. Folders whose name ends in .1, .2, … hold earlier measurements and are left out.
    """
    if path.is_file():
        return [path] if path.suffix == ".json" else []
    if (path / RESULT).is_file():
        return [path / RESULT]
    return sorted(file for file in path.glob(f"*/{RESULT}") if not file.parent.suffix.lstrip(".").isdecimal())


def read(files: Sequence[Path]) -> dict[str, Result]:
    """Each result by what distinguishes it from the others. Raises UsageError for a file that is no result."""
    contents = [_read(file) for file in files]
    names = _with_versions(_names(files), contents)
    return {
        name if names.count(name) == 1 else f"{name} {number}": result
        for number, (name, result) in enumerate(zip(names, contents, strict=True), start=1)
    }


def compare_results(files: Sequence[Path], folder: Path) -> list[Path]:
    """Print the results side by side, write comparison.json, report.md and plots to a folder, and return the paths.

    Raises UsageError for a file that is no result.
    """
    joined = _joined_words(read(files))
    show(folder.parent.name, joined)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "comparison.json", joined.to_json())
    figures = draw(joined.plots, folder)
    names = [path.name for path in figures if path.suffix == ".png"]
    write(folder / REPORT, markdown(folder.parent.name, joined, names))
    return [folder / "comparison.json", folder / REPORT, *figures]


def _read(file: Path) -> Result:
    try:
        content: object = read_json(file)
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: {error}") from error
    if not isinstance(content, dict) or "machine" not in content:
        raise UsageError(f"{file}: expected the {RESULT} of {typed('benchmark')}")
    return Result.from_json(content)


def _names(files: Sequence[Path]) -> list[str]:
    """Name results by the keys that vary between their runs, else by their files."""
    if all((file.parent / OVERRIDES).is_file() for file in files):
        return what_varies([read_overrides(file.parent) for file in files])
    return [file.parent.name if file.name == RESULT else file.stem for file in files]


def _with_versions(names: Sequence[str], contents: Sequence[Result]) -> list[str]:
    """The names, those that several results share with the versions of frameworks in which these differ (Braun2018
    table 1).
    """
    named = []
    for name, result in zip(names, contents, strict=True):
        alike = [other.machine for other_name, other in zip(names, contents, strict=True) if other_name == name]
        differing = [key for key in FRAMEWORKS if len({str(machine.get(key)) for machine in alike}) > 1]
        versions = ", ".join(f"{key} {result.machine.get(key, 'not installed')}" for key in differing)
        named.append(versions if name == "default" and versions else " ".join(filter(None, [name, versions])))
    return named


def _joined_words(by_name: Mapping[str, Result]) -> Result:
    """Several results as one; a single result stays as it is."""
    if len(by_name) == 1:
        return next(iter(by_name.values()))
    return Result(
        tables={**join_tables(by_name), "machines": _machines(by_name)},
        notes=[f"{name}: {line}" for name, result in by_name.items() for line in result.notes],
        plots=join_plots(by_name),
    )


def _machines(by_name: Mapping[str, Result]) -> Table:
    """The properties of the machines, one row per property and one column per result."""
    properties = dict.fromkeys(key for result in by_name.values() for key in result.machine)
    return [
        {"machine": key, **{name: str(result.machine.get(key, "–")) for name, result in by_name.items()}}
        for key in properties
    ]


def join_plots(by_name: Mapping[str, Result]) -> list[Plot]:
    """Plots of the same title as one. Each line is named after its result, too, unless a paper published it."""
    joined: dict[str, Plot] = {}
    for name, result in by_name.items():
        for shown in result.plots:
            same = joined.setdefault(shown["title"], {**shown, "series": {}})
            for series, points in shown["series"].items():
                same["series"][series if series.startswith(PUBLISHED) else f"{series} ({name})"] = points
    return list(joined.values())


def show_arms(folders: Sequence[Path]) -> None:
    """Print and write the results of a sweep of benchmarks side by side, as its last step."""
    measured = [folder / RESULT for folder in folders if (folder / RESULT).is_file()]
    if measured:
        print("wrote", *compare_results(measured, folders[0].parent / COMPARISON), sep="\n  ")
    else:
        print_arms(folders)
