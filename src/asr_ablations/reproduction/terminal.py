"""The verdict on a reproduction in the terminal."""

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from asr_ablations.reproduction.causes import Cause
from asr_ablations.reproduction.verdict import Verdict

LONGEST = 60
"""Characters of a value that are shown; reproduction.json has them whole."""


def print_verdict(verdict: Verdict, console: Console | None = None) -> None:
    """Error rates side by side, every difference, and last the verdict."""
    console = console or Console(highlight=False)
    if not console.is_terminal:
        console.width = 160  # a log file has no width of its own, and 80 would fold the names
    console.print(_rates(verdict))
    for name, noise in verdict.noise.items():
        deviation = "" if noise.deviation is None else f"sd {100 * noise.deviation:.2f}, "
        line = f"noise of seeds on {name}: {deviation}two runs differ by up to {100 * noise.limit:.2f} ({noise.source})"
        console.print(line, markup=False, soft_wrap=True)
    if verdict.causes:
        console.print("what differs beside the results:", markup=False)
    for cause in verdict.causes:
        console.print(f"  {told(cause)}", markup=False, soft_wrap=True)
    console.print(f"{verdict.name}: {verdict.why}", markup=False, soft_wrap=True)


def _rates(verdict: Verdict) -> Table:
    table = Table("set", "original WER %", "reproduction WER %", "difference")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, (was, now) in verdict.evidence.rates.items():
        table.add_row(name, f"{100 * was:.2f}", f"{100 * now:.2f}", f"{100 * (now - was):+.2f}")
    return table


def told(cause: Cause) -> str:
    """One difference in a line."""
    if cause.kind == "code" and "/" not in cause.what and not cause.what.endswith(".py"):
        return f"code: {cause.what}: {_short(cause.original)} then, {_short(cause.reproduction)} now"
    if cause.kind == "code":
        return f"code: {cause.what} {_fate(cause)}"
    return f"{cause.kind}: {cause.what}: {_short(cause.original)} then, {_short(cause.reproduction)} now"


def _fate(cause: Cause) -> str:
    return "is new" if cause.original is None else "is gone" if cause.reproduction is None else "has changed"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(one)}" for key, one in value.items())
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:12]}…"
