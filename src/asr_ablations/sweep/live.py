"""The arms of a sweep in a terminal: a table of their states, one line per change elsewhere, and the closing table."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from rich.live import Live
from rich.table import Table
from rich.text import Text

from asr_ablations.runs.layout import frozen_config
from asr_ablations.runs.listed_arms import name_in
from asr_ablations.runs.reader import (
    EVALUATING,
    UnreadableFileError,
    read_overrides,
    read_progress,
    read_recorded,
    read_summary,
)
from asr_ablations.runs.status import DIVERGED, DONE, FAILED, RUNNING, why_unfinished
from asr_ablations.sweep.arm import ELSEWHERE, STOPPED, WAITING, State
from asr_ablations.tools.files import typed
from asr_verdicts.terminal import console


def print_arms(folders: Sequence[Path]) -> None:
    """Print one line per arm: its status and its error rates. folders: of the runs."""
    terminal = console()
    table = Table(title="arms", title_justify="left")
    for column in ("arm", "status", "validation WER %", "WER % of the test sets", "train s", "parameters"):
        table.add_column(column, justify="left" if column in ("arm", "status") else "right", overflow="fold")
    rows = [_cells(folder) for folder in folders]
    for name, cells in zip(what_varies(list(map(read_words, folders))), rows, strict=True):
        table.add_row(name, *cells)
    terminal.print(table)
    if folders:
        terminal.print(f"runs in {folders[0].parent}", soft_wrap=True)
    if len(folders) > 1 and any(status == DONE for status, *_ in rows):
        terminal.print(f"compare them  {typed('compare', folders[0].parent)}", soft_wrap=True)


def what_varies(overrides: Sequence[Sequence[str]]) -> list[str]:
    """The overrides that not all arms share, after the arm's name in a list of arms; "default" if none is left."""
    shared = set.intersection(*map(set, overrides)) if len(overrides) > 1 else set()
    names = [name_in(words) for words in overrides]
    by_name: dict[str | None, set[str]] = {}
    for name, words in zip(names, overrides, strict=True):
        changes = {word for word in words if not word.startswith("seed=")}
        by_name[name] = by_name.get(name, changes) & changes if name is not None else set()
    rest = [
        " ".join([*([name] if name else []), *(word for word in words if word not in shared | by_name[name])])
        for name, words in zip(names, overrides, strict=True)
    ]
    return [text or "default" for text in rest]


def read_words(folder: Path) -> list[str]:
    """Return the overrides of an arm. An arm that did not start has them in its frozen config alone."""
    try:
        return read_overrides(folder)
    except FileNotFoundError:
        frozen = frozen_config(folder)
    return list(read_recorded(frozen)["overrides"]) if frozen.exists() else [folder.name]


def _cells(folder: Path) -> list[str]:
    """Status, WER of the first validation set and of the test sets in percent, seconds of training, parameters."""
    if reason := why_unfinished(folder):
        return [reason, "", "", "", ""]
    summary = read_summary(folder)
    tests = "  ".join(f"{name} {100 * summary.sets[name].wer:.2f}" for name in summary.test_sets)
    validation = next(iter(summary.sets.values()))
    wer = f"{100 * validation.wer:.2f}"
    return [DONE, wer, tests, f"{summary.seconds['train']:.0f}", f"{summary.parameters or 0:,}"]


COLOURS = {DONE: "green", DIVERGED: "yellow", RUNNING: "cyan", FAILED: "red", STOPPED: "yellow", ELSEWHERE: "magenta"}


class LiveArms(AbstractContextManager["LiveArms"]):
    """A display of the arms' states as they change: a table in a terminal, elsewhere a line for each change."""

    def __init__(self) -> None:
        self.console = console(soft_wrap=True)
        self._states: Sequence[State] = []
        self._printed: dict[str, str] = {}
        self._live: Live | None = None

    def __enter__(self) -> "LiveArms":
        if self.console.is_terminal:
            # the table is made when it is drawn, twice a second, and not each time the processes are polled
            self._live = Live(get_renderable=self._tabulate, console=self.console, refresh_per_second=2, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _tabulate(self) -> Table:
        return tabulate_states([ArmState(s.arm.folder, s.arm.overrides, s.status, s.reason) for s in self._states])

    def show(self, states: Sequence[State]) -> None:
        self._states = states
        if self._live is not None:
            return
        names = what_varies([state.arm.overrides for state in states])
        for number, (name, state) in enumerate(zip(names, states, strict=True), start=1):
            if state.status != self._printed.get(state.arm.id, WAITING):
                self._printed[state.arm.id] = state.status
                line = f"arm {number} of {len(states)}: {name}: {state.status}"
                reason = f"  {state.reason}" if state.reason else ""
                log = f"  {state.arm.log}" if state.status == RUNNING else ""
                self.console.print(line + reason + log, markup=False)


class ArmState(NamedTuple):
    """The state of an arm, for a table. folder: of its run; reason: why it has this status."""

    folder: Path
    overrides: Sequence[str]
    status: str
    reason: str


def tabulate_states(arms: Sequence[ArmState]) -> Table:
    """A table with the status of each arm, and the progress that its run has recorded."""
    table = Table(title="arms", title_justify="left")
    for column in ("arm", "status", "epoch", "train loss", "WER %", "time left"):
        table.add_column(column, justify="left" if column in ("arm", "status") else "right", overflow="fold")
    for name, arm in zip(what_varies([arm.overrides for arm in arms]), arms, strict=True):
        word, *cells = _read_cells(arm)
        table.add_row(name, Text.assemble((word, COLOURS.get(arm.status, "dim")), f" {arm.reason}".rstrip()), *cells)
    return table


def _read_cells(arm: ArmState) -> list[str]:
    """The cells of a row: status, epoch, training loss, WER % of the first validation set, time left (min:s)."""
    try:
        progress = read_progress(arm.folder)
    except (FileNotFoundError, UnreadableFileError):
        return [arm.status, "", "", "", ""]
    loss = "" if progress.loss is None else f"{progress.loss:.3f}"
    wer = "" if progress.wer is None else f"{100 * progress.wer:.1f}"
    if arm.status != RUNNING:
        return [arm.status, f"{progress.epoch}/{progress.epochs}", loss, wer, ""]
    if progress.phase == EVALUATING:
        return [EVALUATING, "", loss, wer, ""]
    epoch = progress.epoch + progress.batch / max(1, progress.batches)
    minutes, seconds = divmod(round(progress.seconds_left), 60)
    return [arm.status, f"{epoch:.1f}/{progress.epochs}", loss, wer, f"{minutes}:{seconds:02d}"]
