"""The arms of a sweep while it runs: a live table in a terminal, one line per change elsewhere."""

from collections.abc import Sequence
from types import TracebackType

from rich.live import Live
from rich.table import Table
from rich.text import Text

from asr_ablations.runs.status import DIVERGED, DONE, FAILED, RUNNING
from asr_ablations.sweep.states import ELSEWHERE, STOPPED, WAITING, State
from asr_ablations.sweep.terminal import what_varies
from asr_ablations.tools.files import Json
from asr_ablations.tools.terminal import console

COLOURS = {DONE: "green", DIVERGED: "yellow", RUNNING: "cyan", FAILED: "red", STOPPED: "yellow", ELSEWHERE: "magenta"}


class LiveArms:
    """A display of the arms' states as they change, as a context."""

    def __init__(self) -> None:
        self.console = console(soft_wrap=True)
        self._live: Live | None = None
        self._printed: dict[str, str] = {}

    def __enter__(self) -> "LiveArms":
        if self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=2, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, states: Sequence[State]) -> None:
        """Display the current states; outside a terminal, print those that have changed."""
        if self._live is not None:
            self._live.update(_LazyTable(states))
            return
        names = what_varies([state.arm.overrides for state in states])
        for number, (name, state) in enumerate(zip(names, states, strict=True), start=1):
            if state.status != self._printed.get(state.arm.id, WAITING):
                self._printed[state.arm.id] = state.status
                line = f"arm {number} of {len(states)}: {name}: {state.status}"
                reason = f"  {state.reason}" if state.reason else ""
                log = f"  {state.arm.log}" if state.status == RUNNING else ""
                self.console.print(line + reason + log, markup=False)


class _LazyTable:
    """A table that is built when it is drawn, twice a second, and not each time the processes are polled."""

    def __init__(self, states: Sequence[State]) -> None:
        self.states = states

    def __rich__(self) -> Table:
        table = Table(title="arms", title_justify="left")
        for column in ("arm", "status", "epoch", "train loss", "WER %", "time left"):
            table.add_column(column, justify="left" if column in ("arm", "status") else "right", overflow="fold")
        for name, state in zip(what_varies([s.arm.overrides for s in self.states]), self.states, strict=True):
            progress = state.progress() if state.status == RUNNING else {}
            status = Text.assemble((state.status, COLOURS.get(state.status, "dim")), f" {state.reason}".rstrip())
            table.add_row(name, status, *_cells(progress))
        return table


def _cells(progress: Json) -> list[str]:
    """Epoch, training loss, WER in percent and time left (minutes:seconds); empty where they are not known yet."""
    if not progress:
        return ["", "", "", ""]
    fraction = progress["batch"] / max(1, progress["batches"])
    epoch = f"{progress['epoch'] + fraction:.1f}/{progress['epochs']}"
    loss = "" if progress["loss"] is None else f"{progress['loss']:.3f}"
    wer = "" if progress["wer"] is None else f"{100 * progress['wer']:.1f}"
    minutes, seconds = divmod(round(progress["seconds_left"]), 60)
    return [epoch, loss, wer, f"{minutes}:{seconds:02d}"]
