"""The console for tables and messages, and progress bars for work beside training."""

import io
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment

WIDTH = 160
"""Columns where the output is no terminal: a log file has no width of its own, and 80 would fold the names."""

VERDICT_STYLES = {
    "better": "green", "worse": "red", "interaction shown": "bold", "equivalent": "cyan",
    "typical runs equivalent": "cyan", "open": "dim", "undecided": "yellow",
}  # fmt: skip
"""Colours of the outcomes of questions; the others have none."""


_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str) -> str:
    """The text with everything spelled out that a terminal would obey, that turns the direction of writing, or that is
    half of a character. Ids and names come from corpora and folders of strangers.
    """
    return _OBEYED.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def harmless_line(text: str) -> str:
    """The same in one line. A carriage return, as a script written on Windows leaves it behind a value, is spelled out;
    it is not taken for a space.
    """
    return " ".join(harmless(text).split())


def forgive_characters() -> None:
    """From now on, what the encoding of an output lacks is spelled out there, and ends nothing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _Console(Console):
    """Shows every text harmless, whatever it is part of."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))


def console(*, stderr: bool = False, soft_wrap: bool = False, quiet: bool = False) -> Console:
    """A console that colours nothing on its own, as wide as the terminal. It knows no markup: an arm may be called
    x=[a], and a path may hold [/b].
    """
    terminal = _Console(stderr=stderr, highlight=False, markup=False, soft_wrap=soft_wrap, quiet=quiet)
    if not terminal.is_terminal:
        terminal.width = WIDTH
    return terminal


def waiting(title: str) -> AbstractContextManager[object]:
    """On a terminal, a sign of life for as long as the block takes."""
    terminal = console(stderr=True)
    return terminal.status(title) if terminal.is_terminal else nullcontext()


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
