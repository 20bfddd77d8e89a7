"""Show benchmark results in the terminal and in Markdown, one at a time or several side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from rich import table as rich_table

from asr_ablations.runs.layout import COMPARISON, OVERRIDES, REPORT, RESULT
from asr_ablations.runs.reader import read_overrides
from asr_ablations.sweep.live import label_arms, print_arms
from asr_ablations.tools.files import read_json, typed
from asr_benchmarks.plots import Plot, draw
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json, write, write_json
from asr_verdicts.report.formats import table as markdown_table
from asr_verdicts.terminal import console

Row: TypeAlias = dict[str, Any]
"""A table row, which maps column names to strings, numbers, or None for unknown values."""

Table: TypeAlias = Sequence[Row]

PUBLISHED = "published"
"""Prefix in the names of tables and plot lines with published numbers, which are the same on every machine."""

FRAMEWORKS = ("python", "torch", "jax", "keras", "tensorflow", "tensorflow-cpu", "returnn")
"""Packages whose versions a result records, if they are installed."""


def published(name: str) -> Any:
    """Read published/<name>.yaml. Its measurements are floats, because join_tables matches rows by all other values."""
    return yaml.safe_load((Path(__file__).parent / "published" / f"{name}.yaml").read_text(encoding="utf-8"))


@dataclass
class Result:
    """The result of a benchmark.

    - figures: single values by name
    - tables: tables by name
    - relative: for each table, the columns that a comparison also shows as percentages of the first result
    - machine: hardware properties and package versions
    """

    figures: dict[str, object] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    relative: dict[str, list[str]] = field(default_factory=dict)
    machine: dict[str, object] = field(default_factory=dict)

    def to_json(self) -> Json:
        """Return the dict that result.json stores. Each figure and each table is a top-level key."""
        others = {name: getattr(self, name) for name in OTHERS}
        return {**self.figures, **self.tables, **others}

    @classmethod
    def from_json(cls, content: Json) -> "Result":
        """Build a result from the dict in result.json, where lists are tables and single values are figures."""
        others = {key: content[key] for key in OTHERS if key in content}
        named = {key: value for key, value in content.items() if key not in OTHERS}
        figures = {key: value for key, value in named.items() if not isinstance(value, (list, dict))}
        return cls(figures, {key: value for key, value in named.items() if isinstance(value, list)}, **others)


OTHERS = ("notes", "plots", "relative", "machine")
"""Fields of Result that result.json stores under their own names."""


def fill_row(columns: str, *values: Any) -> Row:
    """Build a row from the column names, such as `first | second`, and the values in the same order."""
    return dict(zip(columns.split(" | "), values, strict=True))


def tables(result: Result) -> dict[str, Table]:
    """Return a result's tables that have rows, with the single figures as the first table."""
    figures = [{"figure": name, "value": value} for name, value in result.figures.items()]
    return {name: rows for name, rows in {"figures": figures, **result.tables}.items() if rows}


def show(title: str, result: Result) -> None:
    """Print a result's tables and notes."""
    terminal = console()
    terminal.print(title, soft_wrap=True, markup=False, style="bold")
    for name, rows in tables(result).items():
        shown = rich_table.Table(title=None if name == "figures" else _spell(name), title_justify="left")
        for number, column in enumerate(rows[0]):
            shown.add_column(_spell(column), justify="right" if number else "left")
        for row in rows:
            shown.add_row(*map(text, row.values()))
        terminal.print(shown)
    for line in result.notes:
        terminal.print(f"note: {line}", soft_wrap=True, markup=False)


def markdown(title: str, result: Result, figures: Sequence[str] = ()) -> str:
    """Return a result as a Markdown report. figures: file names of the plots, which are in the report's folder."""
    parts = [f"# {title}"]
    if result.machine:
        parts.append("\n".join(f"- {key}: {value}" for key, value in result.machine.items()))
    for name, rows in tables(result).items():
        cells = [list(map(text, row.values())) for row in rows]
        parts += [f"## {_spell(name)}", markdown_table(list(map(_spell, rows[0])), cells)]
    if result.notes:
        parts.append("\n".join(f"- {line}" for line in result.notes))
    parts += [f"![{name.rpartition('.')[0]}]({name})" for name in figures]
    return "\n\n".join(parts) + "\n"


def text(value: object) -> str:
    """Format a table cell: floats with four significant digits (large ones as integers), and None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
    return str(value)


def _spell(name: str) -> str:
    return name.replace("_", " ")


def join_tables(results: Mapping[str, Result]) -> dict[str, Table]:
    """Join tables with the same name from several results.

    Columns with floats are measurements. Each appears once per result, with the result's name appended, but published
    measurements appear only once. Rows with the same values in all other columns become one row.
    """
    tables_of = {name: tables(result) for name, result in results.items()}
    relative = {title: columns for result in results.values() for title, columns in result.relative.items()}
    return {
        title: _join_rows({name: by_title.get(title, []) for name, by_title in tables_of.items()}, title, relative)
        for title in dict.fromkeys(title for by_title in tables_of.values() for title in by_title)
    }


def _join_rows(table_of: Mapping[str, Table], title: str, relative: Mapping[str, Sequence[str]]) -> Table:
    """Join one table of several results. relative: by table, the columns to add as percentages of the first result."""
    rows = [row for table in table_of.values() for row in table]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    measured = [column for column in columns if any(isinstance(row.get(column), float) for row in rows)]
    keys = [column for column in columns if column not in measured]
    by_place = {name: {_place(row, keys): row for row in table} for name, table in table_of.items()}
    joined: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        joined.setdefault(_place(row, keys), {column: row.get(column) for column in keys})
    base, *later = by_place
    for column in measured:
        values = {name: {place: row.get(column) for place, row in by_place[name].items()} for name in by_place}
        first, *others = [cells for cells in values.values() if cells]
        once = title.startswith(PUBLISHED) and all(cells == first for cells in others)
        for place, cells in joined.items():
            if once:
                cells[column] = first[place]
                continue
            cells |= {f"{column} {name}": by_row.get(place) for name, by_row in values.items()}
            for name in later if column in relative.get(title, ()) else ():
                above, below = values[name].get(place), values[base].get(place)
                cells[f"{column} {name}, % of {base}"] = 100 * above / below if below and above is not None else None
    return list(joined.values())


def _place(row: Row, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(row.get(column)) for column in keys)


def results(path: Path) -> list[Path]:
    """List the result files at a path, which may be a result file, a run folder or a sweep folder.

    Folders whose names end in .1, .2, … are skipped, because they contain earlier measurements.
    """
    if path.is_file():
        return [path] if path.suffix == ".json" else []
    if (path / RESULT).is_file():
        return [path / RESULT]
    return sorted(file for file in path.glob(f"*/{RESULT}") if not file.parent.suffix.lstrip(".").isdecimal())


def read(files: Sequence[Path]) -> dict[str, Result]:
    """Read result files, and name each result by what sets it apart. Raise UsageError if a file is not a result."""
    contents = [_read_result(file) for file in files]
    names = _add_versions(_name_files(files), contents)
    return {
        name if names.count(name) == 1 else f"{name} {number}": result
        for number, (name, result) in enumerate(zip(names, contents, strict=True), start=1)
    }


def compare_results(files: Sequence[Path], folder: Path) -> list[Path]:
    """Print results side by side, and write comparison.json, report.md and plots to `folder`. Return their paths."""
    joined = _join(read(files))
    show(folder.parent.name, joined)
    folder.mkdir(parents=True, exist_ok=True)
    return write_report(folder / "comparison.json", folder.parent.name, joined)


def write_report(file: Path, title: str, result: Result) -> list[Path]:
    """Write a result to `file`, and write report.md and plots next to it. Return the paths of all files."""
    write_json(file, result.to_json())
    figures = draw(result.plots, file.parent)
    report = file.with_name(REPORT)
    write(report, markdown(title, result, [path.name for path in figures if path.suffix == ".png"]))
    return [file, report, *figures]


def _read_result(file: Path) -> Result:
    try:
        content: object = read_json(file)
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: {error}") from error
    if not isinstance(content, dict) or "machine" not in content:
        raise UsageError(f"{file}: expected the {RESULT} of {typed('benchmark')}")
    return Result.from_json(content)


def _name_files(files: Sequence[Path]) -> list[str]:
    """Name results by the overrides that differ between their runs, or by folder or file if overrides are missing."""
    if all((file.parent / OVERRIDES).is_file() for file in files):
        return label_arms([read_overrides(file.parent) for file in files])
    return [file.parent.name if file.name == RESULT else file.stem for file in files]


def _add_versions(names: Sequence[str], contents: Sequence[Result]) -> list[str]:
    """Append framework versions to names that several results share, if the versions differ (Braun2018 table 1)."""
    pairs, complete = list(zip(names, contents, strict=True)), []
    for name, result in pairs:
        alike = [other.machine for other_name, other in pairs if other_name == name]
        differing = [key for key in FRAMEWORKS if len({str(machine.get(key)) for machine in alike}) > 1]
        versions = ", ".join(f"{key} {result.machine.get(key, 'not installed')}" for key in differing)
        complete.append(versions if name == "default" and versions else " ".join(filter(None, [name, versions])))
    return complete


def _join(by_name: Mapping[str, Result]) -> Result:
    """Join several results into one. Return a single result unchanged."""
    if len(by_name) == 1:
        return next(iter(by_name.values()))
    properties = dict.fromkeys(key for result in by_name.values() for key in result.machine)
    machines = [
        {"machine": key, **{name: str(result.machine.get(key, "–")) for name, result in by_name.items()}}
        for key in properties
    ]
    notes = [f"{name}: {line}" for name, result in by_name.items() for line in result.notes]
    return Result(tables={**join_tables(by_name), "machines": machines}, notes=notes, plots=join_plots(by_name))


def join_plots(by_name: Mapping[str, Result]) -> list[Plot]:
    """Join plots with the same title. Append the result's name to every line except published ones."""
    joined: dict[str, Plot] = {}
    for name, result in by_name.items():
        for shown in result.plots:
            same = joined.setdefault(shown["title"], {**shown, "series": {}})
            for series, points in shown["series"].items():
                same["series"][series if series.startswith(PUBLISHED) else f"{series} ({name})"] = points
    return list(joined.values())


def show_arms(folders: Sequence[Path]) -> None:
    """Show the results of a benchmark sweep side by side. The launcher calls this function after the last arm."""
    measured = [folder / RESULT for folder in folders if (folder / RESULT).is_file()]
    if measured:
        print("wrote", *compare_results(measured, folders[0].parent / COMPARISON), sep="\n  ")
    else:
        print_arms(folders)
