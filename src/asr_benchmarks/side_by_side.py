"""Results of benchmarks side by side: the arms of a sweep, or those of several machines or versions of a framework."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from asr_ablations.runs.layout import COMPARISON, OVERRIDES, REPORT, RESULT
from asr_ablations.runs.reader import read_overrides
from asr_ablations.sweep.terminal import print_arms, what_varies
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import read_json, write, write_json
from asr_ablations.tools.paths import typed
from asr_benchmarks.plots import Plot, draw
from asr_benchmarks.result import FRAMEWORKS, PUBLISHED, Result, Table
from asr_benchmarks.tables import join_tables, markdown, show


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
    joined = _joined(read(files))
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
    """What varies between the results of runs; else the names of the files."""
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


def _joined(by_name: Mapping[str, Result]) -> Result:
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
