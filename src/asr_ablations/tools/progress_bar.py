"""A progress bar for work before or besides training."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PATIENCE = 20.0
"""s between two lines where the output is no terminal: short work says nothing."""


@contextmanager
def bar(title: str, total: float, as_bytes: bool = False) -> Iterator[Callable[[float], None]]:
    """Gives the function that adds to what is done. A bar on a terminal, which goes when it is full; else now and then
    a line on the standard error.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(title, total)
        return
    amount = DownloadColumn() if as_bytes else MofNCompleteColumn()
    columns = [TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn()]
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(title, total=total)
        yield lambda done: shown.advance(task, done)


def _lines(title: str, total: float) -> Callable[[float], None]:
    done, told = 0.0, time.monotonic()

    def advance(amount: float) -> None:
        nonlocal done, told
        done += amount
        if time.monotonic() - told > PATIENCE:
            told = time.monotonic()
            print(f"{title}: {100 * done / max(total, 1e-9):.0f} %", file=sys.stderr, flush=True)

    return advance
