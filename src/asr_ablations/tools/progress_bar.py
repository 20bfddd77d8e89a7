"""A progress bar for work before or besides training."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from asr_ablations.tools.terminal import console

PATIENCE = 20.0
"""Seconds between two lines where the output is no terminal: short work prints nothing."""


@contextmanager
def bar(title: str, total: float, as_bytes: bool = False) -> Iterator[Callable[[float], None]]:
    """Yield the function that adds to the amount done. Shows a bar on a terminal, which disappears when it is full, and
    otherwise a line on the standard error now and then.
    """
    terminal = console(stderr=True)
    if not terminal.is_terminal:
        yield _lines(title, total)
        return
    amount = DownloadColumn() if as_bytes else MofNCompleteColumn()
    columns = [TextColumn("{task.description}", markup=False), BarColumn(), amount, TimeRemainingColumn()]
    with Progress(*columns, console=terminal, transient=True) as shown:
        task = shown.add_task(title, total=total)
        yield lambda done: shown.advance(task, done)


def _lines(title: str, total: float) -> Callable[[float], None]:
    done, printed = 0.0, time.monotonic()

    def advance(amount: float) -> None:
        nonlocal done, printed
        done += amount
        if time.monotonic() - printed > PATIENCE:
            printed = time.monotonic()
            print(f"{title}: {100 * done / max(total, 1e-9):.0f} %", file=sys.stderr, flush=True)

    return advance
