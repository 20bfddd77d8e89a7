"""The records of finished runs: what comparisons are made from."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.progress import track

from asr_ablations.runs import layout
from asr_ablations.runs.evaluations import read_evaluations
from asr_ablations.runs.reader import (
    read_config,
    read_data,
    read_environment,
    read_metrics,
    read_overrides,
    read_summary,
    read_utterances,
)
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.status import why_unfinished
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.terminal import console

KEPT_ASIDE = re.compile(r"-[0-9a-f]{8}\.\d+$")
"""The end of the name of a folder that an earlier run of the same content had."""


@dataclass(frozen=True)
class Records:
    """Finished runs in the order in which they were started, the folders of other runs with the reason, and warnings
    about where the runs come from.
    """

    runs: list[RunRecord]
    unfinished: list[tuple[Path, str]]
    warnings: list[str] = field(default_factory=list)


def load(folders: Sequence[Path]) -> Records:
    """All runs of the folders, each a run's or a sweep's. Raises UsageError for a folder that holds none."""
    runs: dict[Path, RunRecord] = {}
    unfinished: dict[Path, str] = {}
    sweeps = [folder for folder in folders if folder.name != layout.EVALUATIONS]
    for folder in folders:
        if folder.name == layout.EVALUATIONS:
            runs |= {run.folder: run for run in read_evaluations(folder, read_run(folder.parent))}
    for path in _with_bar([path for folder in sweeps for path in _run_folders(folder)]):
        if reason := why_unfinished(path):
            unfinished[path.resolve()] = reason
        elif path.resolve() not in runs:
            runs[path.resolve()] = replace(read_run(path), folder=path)
    return Records(sorted(runs.values(), key=_started), list(unfinished.items()))


def read_run(folder: Path) -> RunRecord:
    """The record of one finished run. Raises UsageError for one that is not whole."""
    try:
        return RunRecord(
            folder=folder,
            config=read_config(folder),
            overrides=read_overrides(folder),
            summary=read_summary(folder),
            metrics=read_metrics(folder),
            utterances=read_utterances(folder / layout.UTTERANCES),
            environment=read_environment(folder),
            data=read_data(folder) if (folder / layout.DATA).exists() else {},
        )
    except FileNotFoundError as error:
        raise UsageError(f"{folder}: its status is done, but {Path(str(error.filename)).name} is missing") from error


def _with_bar(paths: list[Path]) -> Iterable[Path]:
    terminal = console(stderr=True)
    return track(paths, "reading runs", console=terminal, transient=True, disable=not terminal.is_terminal)


def _run_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; expected a sweep's, or a run's")
    if layout.is_run(folder):
        return [folder]
    children = {path for path in layout.runs_in(folder) if not KEPT_ASIDE.search(path.name)}
    frozen = {folder / path.stem for path in (folder / layout.ARMS).glob("*.yaml")}  # arms that never started, too
    if not children | frozen:
        raise UsageError(f"{folder}: holds no runs; expected a sweep's folder, or a run's with its {layout.STATUS}")
    return sorted(children | frozen)


def _started(run: RunRecord) -> tuple[str, str]:
    return str(run.environment.get("started", "")), str(run.folder)
