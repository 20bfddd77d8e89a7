"""The console that tables and messages go to."""

from rich.console import Console

WIDTH = 160
"""Columns where the output is no terminal: a log file has no width of its own, and 80 would fold the names."""

VERDICT_STYLES = {
    "better": "green", "worse": "red", "interaction shown": "bold", "equivalent": "cyan", "open": "dim",
    "undecided": "yellow",
}  # fmt: skip
"""Colours of the outcomes of questions; the others have none."""


def console(*, stderr: bool = False, soft_wrap: bool = False, quiet: bool = False) -> Console:
    """A console that colours nothing on its own, as wide as the terminal."""
    terminal = Console(stderr=stderr, highlight=False, soft_wrap=soft_wrap, quiet=quiet)
    if not terminal.is_terminal:
        terminal.width = WIDTH
    return terminal
