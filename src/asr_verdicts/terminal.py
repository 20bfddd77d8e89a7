"""Output in the terminal: a console for tables and messages, and progress bars."""

import io
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment

WIDTH = 160  # line width in characters if the output is not a terminal; 80 would wrap long names

# colour of each outcome in tables; outcomes that are not listed have no colour
VERDICT_STYLES = {
    "better": "green", "worse": "red", "interaction shown": "bold", "equivalent": "cyan",
    "typical runs equivalent": "cyan", "open": "dim", "undecided": "yellow",
}  # fmt: skip

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str) -> str:
    """Escape control characters, direction marks and surrogates, because names may come from untrusted files."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def harmless_line(text: str) -> str:
    """Put a text on one line, and escape its control characters.

    A carriage return is escaped, not replaced by a space, to make it visible if a Windows script appends it to a value.
    """
    return " ".join(harmless(text).split())


def forgive_characters() -> None:
    """Make stdout and stderr escape characters that their encoding lacks, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _Console(Console):
    """A console that escapes control characters in all its output."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))


def console(*, stderr: bool = False, soft_wrap: bool = False, quiet: bool = False) -> Console:
    """Return a console without automatic colours, as wide as the terminal or, without one, WIDTH characters wide.

    It does not parse markup, because an arm may be called x=[a] and a path may contain [/b].
    """
    terminal = _Console(stderr=stderr, highlight=False, markup=False, soft_wrap=soft_wrap, quiet=quiet)
    if not terminal.is_terminal:
        terminal.width = WIDTH
    return terminal


def waiting(title: str) -> AbstractContextManager[object]:
    """Return a context manager that shows a spinner while its block runs, if stderr is a terminal."""
    terminal = console(stderr=True)
    return terminal.status(title) if terminal.is_terminal else nullcontext()


PATIENCE = 20.0  # seconds between progress lines if stderr is not a terminal; shorter tasks print none


@contextmanager
def bar(title: str, total: float, as_bytes: bool = False) -> Iterator[Callable[[float], None]]:
    """Show a progress bar while the block runs, and yield a function that adds to the amount of work done.

    If stderr is not a terminal, a line is printed every PATIENCE seconds instead.
    """
    terminal = console(stderr=True)
    if not terminal.is_terminal:
        yield _print_progress(title, total)
        return
    amount = DownloadColumn() if as_bytes else MofNCompleteColumn()
    columns = [TextColumn("{task.description}", markup=False), BarColumn(), amount, TimeRemainingColumn()]
    with Progress(*columns, console=terminal, transient=True) as shown:
        task = shown.add_task(title, total=total)
        yield lambda done: shown.advance(task, done)


def _print_progress(title: str, total: float) -> Callable[[float], None]:
    done, printed = 0.0, time.monotonic()

    def advance(amount: float) -> None:
        nonlocal done, printed
        done += amount
        if time.monotonic() - printed > PATIENCE:
            printed = time.monotonic()
            print(f"{title}: {100 * done / max(total, 1e-9):.0f} %", file=sys.stderr, flush=True)

    return advance
