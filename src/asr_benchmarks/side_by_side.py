"""Results of benchmarks side by side: the arms of a sweep, or one machine's beside another's."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asr_ablations.runs.layout import COMPARISON, OVERRIDES, REPORT, RESULT
from asr_ablations.runs.reader import read_overrides
from asr_ablations.sweep.terminal import print_arms, what_varies
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import write, write_json
from asr_benchmarks.plots import draw
from asr_benchmarks.tables import PUBLISHED, markdown, show, side_by_side


def results(path: Path) -> list[Path]:
    """The files of results under a path: itself, a run's, or those of all runs of a sweep; none where there are none.
    Folders whose name ends in .1, .2, … hold what was measured before, and are left out.
    """
    if path.is_file():
        return [path] if path.suffix == ".json" else []
    if (path / RESULT).is_file():
        return [path / RESULT]
    return sorted(found for found in path.glob(f"*/{RESULT}") if not found.parent.suffix.lstrip(".").isdecimal())


def read(files: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Each result by what tells it from the others. Raises UsageError for a file that is no result."""
    found = [_result(file) for file in files]
    names = _names(files)
    return {
        name if names.count(name) == 1 else f"{name} {number}": one
        for number, (name, one) in enumerate(zip(names, found, strict=True), start=1)
    }


def compare_results(files: Sequence[Path], folder: Path) -> list[Path]:
    """Print the results beside each other and write comparison.json, report.md and plots to a folder; the paths."""
    each = read(files)
    joined: dict[str, Any] = side_by_side(each) if len(each) > 1 else next(iter(each.values()))
    if len(each) > 1:
        keys = list(dict.fromkeys(key for one in each.values() for key in one.get("machine", {})))
        joined["machines"] = [
            {"machine": key, **{name: str(one.get("machine", {}).get(key, "–")) for name, one in each.items()}}
            for key in keys
        ]
        joined["notes"] = [f"{name}: {line}" for name, one in each.items() for line in one.get("notes", [])]
        joined["plots"] = _joined_plots(each)
    show(folder.parent.name, joined)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "comparison.json", joined)
    figures = draw(joined.get("plots", []), folder)
    names = [path.name for path in figures if path.suffix == ".png"]
    write(folder / REPORT, markdown(folder.parent.name, joined, names))
    return [folder / "comparison.json", folder / REPORT, *figures]


def _result(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: {error}") from error
    if not isinstance(found, dict) or "machine" not in found:
        raise UsageError(f"{file}: expected the {RESULT} of python src/benchmark.py")
    return found


def _names(files: Sequence[Path]) -> list[str]:
    """Of runs what varies between them, of other files their names."""
    if all((file.parent / OVERRIDES).is_file() for file in files):
        return what_varies([read_overrides(file.parent) for file in files])
    return [file.parent.name if file.name == RESULT else file.stem for file in files]


def _joined_plots(each: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Plots of the same title as one, each line named after its result, too, but for what papers published."""
    joined: dict[str, dict[str, Any]] = {}
    for name, one in each.items():
        for told in one.get("plots", []):
            same = joined.setdefault(told["title"], {**told, "series": {}})
            for series, points in told["series"].items():
                same["series"][series if series.startswith(PUBLISHED) else f"{series} ({name})"] = points
    return list(joined.values())


def show_arms(folders: Sequence[Path]) -> None:
    """The end of a sweep of benchmarks: its results side by side."""
    measured = [folder / RESULT for folder in folders if (folder / RESULT).is_file()]
    if measured:
        print("wrote", *compare_results(measured, folders[0].parent / COMPARISON), sep="\n  ")
    else:
        print_arms(folders)
