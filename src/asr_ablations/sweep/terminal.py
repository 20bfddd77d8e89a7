"""The closing table of a sweep in the terminal."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from asr_ablations.runs.layout import frozen_config
from asr_ablations.runs.listed_arms import name_in
from asr_ablations.runs.reader import read_overrides, read_summary, read_yaml
from asr_ablations.runs.status import why_unfinished
from asr_ablations.tools.paths import typed
from asr_ablations.tools.terminal import console


def print_arms(folders: Sequence[Path]) -> None:
    """Print one line per arm: its status and its error rates. folders: of the runs."""
    terminal = console()
    table = Table(title="arms", title_justify="left")
    for column in ("arm", "status", "validation WER %", "WER % of the test sets", "train s", "parameters"):
        table.add_column(column, justify="left" if column in ("arm", "status") else "right", overflow="fold")
    for name, folder in zip(what_varies([_overrides(folder) for folder in folders]), folders, strict=True):
        table.add_row(name, *_cells(folder))
    terminal.print(table)
    if folders:
        terminal.print(f"runs in {folders[0].parent}", soft_wrap=True)
    if len(folders) > 1:
        terminal.print(f"compare them  {typed('compare')} {folders[0].parent}", soft_wrap=True)


def what_varies(overrides: Sequence[Sequence[str]]) -> list[str]:
    """The overrides of each arm without those that all arms share, joined; "default" where none is left. An arm of a
    list has its name there in place of what it changes.
    """
    shared = set.intersection(*map(set, overrides)) if len(overrides) > 1 else set()
    names = [name_in(own) for own in overrides]
    by_name: dict[str | None, set[str]] = {}
    for name, own in zip(names, overrides, strict=True):
        changes = {word for word in own if not word.startswith("seed=")}
        by_name[name] = by_name.get(name, changes) & changes if name is not None else set()
    rest = [
        " ".join([*([name] if name else []), *(word for word in own if word not in shared | by_name[name])])
        for name, own in zip(names, overrides, strict=True)
    ]
    return [text or "default" for text in rest]


def _overrides(folder: Path) -> list[str]:
    """What was typed for an arm; one that did not start has it in its frozen config alone."""
    try:
        return read_overrides(folder)
    except FileNotFoundError:
        frozen = frozen_config(folder)
    return list(read_yaml(frozen)["overrides"]) if frozen.exists() else [folder.name]


def _cells(folder: Path) -> list[str]:
    """Status, WER of the first validation set and of the test sets in percent, seconds of training, parameters."""
    if reason := why_unfinished(folder):
        return [reason, "", "", "", ""]
    summary = read_summary(folder)
    tests = "  ".join(f"{name} {100 * summary['sets'][name]['wer']:.2f}" for name in summary["test_sets"])
    validation = next(iter(summary["sets"].values()))
    wer = f"{100 * validation['wer']:.2f}"
    return ["done", wer, tests, f"{summary['seconds']['train']:.0f}", f"{summary['parameters']:,}"]
