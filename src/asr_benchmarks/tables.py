"""Tables of a benchmark's result: in the terminal, in Markdown, and several results side by side."""

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
"""A row of a table, by column: text, a number, or None if unknown."""

Table: TypeAlias = Sequence[Row]

PUBLISHED = "published"
"""Prefix of tables and lines with published numbers, which do not depend on the machine."""

FRAMEWORKS = ("python", "torch", "jax", "keras", "tensorflow", "tensorflow-cpu", "returnn")
"""Packages whose versions a result records, if they are installed."""


def published(name: str) -> Any:
    """Read published/<name>.yaml. Its measurements are decimal numbers, which never identify rows."""
    return yaml.safe_load((Path(__file__).parent / "published" / f"{name}.yaml").read_text(encoding="utf-8"))


@dataclass
class Result:
    """The measurements of a benchmark: single figures, rows by table, notes, plots, and the machine. relative: columns
    by table that comparisons also show in % of the first result.
    """

    figures: dict[str, object] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    relative: dict[str, list[str]] = field(default_factory=dict)
    machine: dict[str, object] = field(default_factory=dict)

    def to_json(self) -> Json:
        """Return the content of result.json: figures and tables by name, then the other fields."""
        others = {name: getattr(self, name) for name in OTHERS}
        return {**self.figures, **self.tables, **others}

    @classmethod
    def from_json(cls, content: Json) -> "Result":
        """Return the result in a result.json: lists are tables, single values are figures."""
        others = {key: content[key] for key in OTHERS if key in content}
        named = {key: value for key, value in content.items() if key not in OTHERS}
        figures = {key: value for key, value in named.items() if not isinstance(value, (list, dict))}
        return cls(figures, {key: value for key, value in named.items() if isinstance(value, list)}, **others)


OTHERS = ("notes", "plots", "relative", "machine")
"""Fields of a result that have their own names in result.json."""


def fill_row(columns: str, *values: Any) -> Row:
    """Build a row from values and column names such as `first | second`."""
    return dict(zip(columns.split(" | "), values, strict=True))


def tables(result: Result) -> dict[str, Table]:
    """Return the tables of a result that have rows; the first contains its single figures."""
    figures = [{"figure": name, "value": value} for name, value in result.figures.items()]
    return {name: rows for name, rows in {"figures": figures, **result.tables}.items() if rows}


def show(title: str, result: Result) -> None:
    """Print the tables and notes of a result."""
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
    """Write the report of a result as Markdown. figures: file names of its plots, in the same folder."""
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
    """Format a value for a table: decimal numbers with four digits, large ones whole, None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
    return str(value)


def _spell(name: str) -> str:
    return name.replace("_", " ")


def join_tables(results: Mapping[str, Result]) -> dict[str, Table]:
    """Join the tables of all results by name. Rows are matched by their columns without decimal numbers. A decimal
    column appears once per result, with the result's name appended; published columns appear only once.
    """
    tables_of = {name: tables(result) for name, result in results.items()}
    relative = {title: columns for result in results.values() for title, columns in result.relative.items()}
    return {
        title: _join_rows({name: by_title.get(title, []) for name, by_title in tables_of.items()}, title, relative)
        for title in dict.fromkeys(title for by_title in tables_of.values() for title in by_title)
    }


def _join_rows(table_of: Mapping[str, Table], title: str, relative: Mapping[str, Sequence[str]]) -> Table:
    """Join several results' tables. relative: columns that are also shown in % of the first result."""
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
    """List the result files of a path, which is a file, a run or a sweep. Folders whose name ends in .1, .2, … contain
    earlier measurements and are left out.
    """
    if path.is_file():
        return [path] if path.suffix == ".json" else []
    if (path / RESULT).is_file():
        return [path / RESULT]
    return sorted(file for file in path.glob(f"*/{RESULT}") if not file.parent.suffix.lstrip(".").isdecimal())


def read(files: Sequence[Path]) -> dict[str, Result]:
    """Read results, named by their differences. Raises UsageError for a file that is not a result."""
    contents = [_read_result(file) for file in files]
    names = _add_versions(_name_files(files), contents)
    return {
        name if names.count(name) == 1 else f"{name} {number}": result
        for number, (name, result) in enumerate(zip(names, contents, strict=True), start=1)
    }


def compare_results(files: Sequence[Path], folder: Path) -> list[Path]:
    """Print results side by side, write comparison.json, report.md and plots, and return the paths."""
    joined = _join(read(files))
    show(folder.parent.name, joined)
    folder.mkdir(parents=True, exist_ok=True)
    return write_report(folder / "comparison.json", folder.parent.name, joined)


def write_report(file: Path, title: str, result: Result) -> list[Path]:
    """Write a result to a file, with report.md and plots in the same folder, and return the paths."""
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
    """Name results by the keys that vary between their runs, or by their files."""
    if all((file.parent / OVERRIDES).is_file() for file in files):
        return label_arms([read_overrides(file.parent) for file in files])
    return [file.parent.name if file.name == RESULT else file.stem for file in files]


def _add_versions(names: Sequence[str], contents: Sequence[Result]) -> list[str]:
    """Add versions of frameworks to equal names if they differ (Braun2018 table 1)."""
    pairs, complete = list(zip(names, contents, strict=True)), []
    for name, result in pairs:
        alike = [other.machine for other_name, other in pairs if other_name == name]
        differing = [key for key in FRAMEWORKS if len({str(machine.get(key)) for machine in alike}) > 1]
        versions = ", ".join(f"{key} {result.machine.get(key, 'not installed')}" for key in differing)
        complete.append(versions if name == "default" and versions else " ".join(filter(None, [name, versions])))
    return complete


def _join(by_name: Mapping[str, Result]) -> Result:
    """Join several results; a single result is not changed."""
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
    """Join plots of the same title. Names of lines get their result's name, except for published lines."""
    joined: dict[str, Plot] = {}
    for name, result in by_name.items():
        for shown in result.plots:
            same = joined.setdefault(shown["title"], {**shown, "series": {}})
            for series, points in shown["series"].items():
                same["series"][series if series.startswith(PUBLISHED) else f"{series} ({name})"] = points
    return list(joined.values())


def show_arms(folders: Sequence[Path]) -> None:
    """Print and write the results of a sweep of benchmarks side by side, as the sweep's last step."""
    measured = [folder / RESULT for folder in folders if (folder / RESULT).is_file()]
    if measured:
        print("wrote", *compare_results(measured, folders[0].parent / COMPARISON), sep="\n  ")
    else:
        print_arms(folders)
