"""What becomes of a sweep's arms, while it runs: a live table in a terminal, a line a change elsewhere."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from asr_ablations.sweep.states import RUNNING, State
from asr_ablations.sweep.terminal import what_varies

COLOURS = {"done": "green", "running": "cyan", "failed": "red", "stopped": "yellow", "elsewhere": "magenta"}


class LiveArms:
    """Shows states as they change."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self._live: Live | None = None
        self._told: dict[str, str] = {}

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
        """The states as they are now."""
        if self._live is not None:
            self._live.update(_Lazy(states))
            return
        names = what_varies([state.arm.overrides for state in states])
        for number, (name, state) in enumerate(zip(names, states, strict=True), start=1):
            if state.status != self._told.get(state.arm.id, "waiting"):
                self._told[state.arm.id] = state.status
                line = f"arm {number} of {len(states)}: {name}: {state.status}"
                more = f"  {state.reason}" if state.reason else ""
                log = f"  {state.arm.log}" if state.status == RUNNING else ""
                self.console.print(line + more + log, markup=False)


class _Lazy:
    """The table, made when it is drawn: twice a second, not at each look at the processes."""

    def __init__(self, states: Sequence[State]) -> None:
        self.states = states

    def __rich__(self) -> Table:
        table = Table(title="arms", title_justify="left")
        for column in ("arm", "status", "epoch", "train loss", "WER %", "left"):
            table.add_column(column, justify="left" if column in ("arm", "status") else "right", overflow="fold")
        for name, state in zip(what_varies([s.arm.overrides for s in self.states]), self.states, strict=True):
            told = state.progress() if state.status == RUNNING else {}
            status = f"[{COLOURS.get(state.status, 'dim')}]{state.status}[/]"
            table.add_row(name, f"{status} {state.reason}".strip(), *_cells(told))
        return table


def _cells(told: dict[str, Any]) -> list[str]:
    if not told:
        return ["", "", "", ""]
    share = told["batch"] / max(1, told["batches"])
    epoch = f"{told['epoch'] + share:.1f}/{told['epochs']}"
    loss = "" if told["loss"] is None else f"{told['loss']:.3f}"
    wer = "" if told["wer"] is None else f"{100 * told['wer']:.1f}"
    minutes, seconds = divmod(round(told["seconds_left"]), 60)
    return [epoch, loss, wer, f"{minutes}:{seconds:02d}"]
