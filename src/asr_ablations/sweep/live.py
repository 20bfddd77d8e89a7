"""Show a sweep's arms while they run (as a table, or without a terminal as one line per change) and at the end."""

from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from rich.live import Live
from rich.table import Table
from rich.text import Text

from asr_ablations.runs.identity import shortened
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
from asr_verdicts.record import Summary
from asr_verdicts.terminal import console

WIDE = 100  # minimum width of a terminal, in columns, for the table of arms to show their cost


def make_table(title: str, columns: Sequence[str], left: Collection[str] = ("arm", "status")) -> Table:
    """Make an empty table. columns: column titles. left: titles of left-aligned columns; the rest are right-aligned."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", overflow="fold")
    return table


def print_arms(folders: Sequence[Path]) -> None:
    """Print one line per run folder with the arm's status and error rates, then the command that compares the arms."""
    terminal = console()
    reasons = {folder: why_unfinished(folder) for folder in folders}
    done = {folder: read_summary(folder) for folder, reason in reasons.items() if not reason}
    sets = dict.fromkeys(name for summary in done.values() for name in (next(iter(summary.sets)), *summary.test_sets))
    cost = ["train s", "params"] if terminal.width >= WIDE else []
    table = make_table("arms, WER %" if sets else "arms", ["arm", *["status"][: any(reasons.values())], *sets, *cost])
    for name, (folder, reason) in zip(label_arms(list(map(read_words, folders))), reasons.items(), strict=True):
        cells = [reason] if folder not in done else [DONE][: any(reasons.values())] + _cells(done[folder], sets)
        table.add_row(name, *cells[: len(table.columns) - 1])
    terminal.print(table)
    if folders:
        terminal.print(f"runs in {folders[0].parent}", soft_wrap=True)
    if len(folders) > 1 and done:
        terminal.print(f"compare them  {typed('compare', folders[0].parent)}", soft_wrap=True)


def label_arms(overrides: Sequence[Sequence[str]]) -> list[str]:
    """Return a label for each arm: its name, if it has one, and the overrides that not all arms share, or "default"."""
    overrides = [[*map(shortened, words)] for words in overrides]
    shared = set.intersection(*map(set, overrides)) if len(overrides) > 1 else set()
    names = [name_in(words) for words in overrides]
    by_name: dict[str | None, set[str]] = {}
    for name, words in zip(names, overrides, strict=True):
        changes = {word for word in words if not word.startswith("seed=")}
        by_name[name] = by_name.get(name, changes) & changes if name is not None else set()
    return [
        " ".join([name or "", *(word for word in words if word not in shared | by_name[name])]).strip() or "default"
        for name, words in zip(names, overrides, strict=True)
    ]


def read_words(folder: Path) -> list[str]:
    """Return an arm's overrides. If the arm has not started, they are read from its frozen config."""
    try:
        return read_overrides(folder)
    except FileNotFoundError:
        frozen = frozen_config(folder)
    return list(read_recorded(frozen)["overrides"]) if frozen.exists() else [folder.name]


def _cells(summary: Summary, sets: Iterable[str]) -> list[str]:
    """Return cells of a row: WER % of each set, training seconds, millions of parameters."""
    rates = [f"{100 * summary.sets[name].wer:.2f}" if name in summary.sets else "" for name in sets]
    return [*rates, f"{summary.seconds['train']:.0f}", f"{(summary.parameters or 0) / 1e6:.2f} M"]


COLOURS = {DONE: "green", DIVERGED: "yellow", RUNNING: "cyan", FAILED: "red", STOPPED: "yellow", ELSEWHERE: "magenta"}


class LiveArms(AbstractContextManager["LiveArms"]):
    """Shows the states of the arms as they change: as a table in a terminal, otherwise as one line for each change."""

    def __init__(self) -> None:
        self.console = console(soft_wrap=True)
        self._states: Sequence[State] = []
        self._printed: dict[str, str] = {}
        self._live: Live | None = None

    def __enter__(self) -> "LiveArms":
        if self.console.is_terminal:
            # the table is made only when it is drawn, twice a second, instead of at each poll of the processes
            self._live = Live(get_renderable=self._tabulate, console=self.console, refresh_per_second=2, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _tabulate(self) -> Table:
        return tabulate_states([ArmState(s.arm.folder, s.arm.overrides, s.status, s.reason) for s in self._states])

    def show(self, states: Sequence[State]) -> None:
        """Show the states of all arms. The number and the order of the arms must be the same in every call."""
        self._states = states
        if self._live is not None:
            return
        names = label_arms([state.arm.overrides for state in states])
        for number, (name, state) in enumerate(zip(names, states, strict=True), start=1):
            if state.status != self._printed.get(state.arm.id, WAITING):
                self._printed[state.arm.id] = state.status
                log = state.arm.log if state.status == RUNNING else ""
                line = f"arm {number} of {len(states)}: {name}: {state.status}"
                self.console.print("  ".join(filter(None, [line, state.reason, str(log)])), markup=False)


class ArmState(NamedTuple):
    """The state of an arm for a table. folder: the arm's run folder. reason: why the arm has its status."""

    folder: Path
    overrides: Sequence[str]
    status: str
    reason: str


def tabulate_states(arms: Sequence[ArmState]) -> Table:
    """Make a table of the arms' statuses and of the progress that their runs have recorded."""
    table = make_table("arms", ["arm", "status", "epoch", "train loss", "WER %", "time left"])
    for name, arm in zip(label_arms([arm.overrides for arm in arms]), arms, strict=True):
        word, *cells = _read_cells(arm)
        table.add_row(name, Text.assemble((word, COLOURS.get(arm.status, "dim")), f" {arm.reason}".rstrip()), *cells)
    return table


def _read_cells(arm: ArmState) -> list[str]:
    """Return the cells of a row: status, epoch, training loss, validation WER %, time left (minutes:seconds)."""
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
