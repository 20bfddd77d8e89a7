"""Closing tables in the terminal."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from asr_ablations.runs.reader import read_overrides, read_summary
from asr_ablations.runs.status import status_of


def print_arms(folders: Sequence[Path]) -> None:
    """One line an arm: what became of it and its error rates."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160  # a log file has no width of its own, and 80 would fold the names
    table = Table(title="arms", title_justify="left")
    for column in ("arm", "status", "validation WER %", "WER % of the test sets", "train s", "parameters"):
        table.add_column(column, justify="left" if column in ("arm", "status") else "right", overflow="fold")
    for name, folder in zip(what_varies([_overrides(folder) for folder in folders]), folders, strict=True):
        table.add_row(name, *_cells(folder))
    console.print(table)
    if folders:
        console.print(f"runs in {folders[0].parent}", soft_wrap=True)


def what_varies(overrides: Sequence[Sequence[str]]) -> list[str]:
    """Each arm's overrides without those that all arms share."""
    shared = set.intersection(*map(set, overrides)) if len(overrides) > 1 else set()
    return [" ".join(o for o in own if o not in shared) or "default" for own in overrides]


def _overrides(folder: Path) -> list[str]:
    try:
        return read_overrides(folder)
    except FileNotFoundError:
        return [folder.name]


def _cells(folder: Path) -> list[str]:
    status = status_of(folder)
    if status is None:
        return ["did not start", "", "", "", ""]
    if status["status"] != "done":
        return [f"{status['status']}: {status.get('reason', 'died')}", "", "", "", ""]
    summary = read_summary(folder)
    tests = "  ".join(f"{name} {100 * summary['sets'][name]['wer']:.2f}" for name in summary["test_sets"])
    validation = next(name for name in summary["sets"])
    wer = f"{100 * summary['sets'][validation]['wer']:.2f}"
    return ["done", wer, tests, f"{summary['seconds']['train']:.0f}", f"{summary['parameters']:,}"]
