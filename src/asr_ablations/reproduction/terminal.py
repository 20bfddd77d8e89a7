"""The verdict on a reproduction in the terminal."""

import json

from rich.table import Table

from asr_ablations.reproduction.causes import Cause
from asr_ablations.reproduction.noise import FEWEST_SEEDS, Noise
from asr_ablations.reproduction.verdict import Verdict
from asr_ablations.tools.terminal import console

LONGEST = 60
"""Characters of a value that are shown; reproduction.json holds all of them."""


def print_verdict(verdict: Verdict) -> None:
    """Print the error rates side by side, the seed noise, every difference, and last the verdict."""
    terminal = console()
    terminal.print(_rates(verdict))
    lines = [noise_line(name, noise) for name, noise in verdict.noise.items()]
    if verdict.causes:
        lines += ["differences other than the results:", *(f"  {cause_line(cause)}" for cause in verdict.causes)]
    for line in [*lines, f"{verdict.name}: {verdict.why}"]:
        terminal.print(line, markup=False, soft_wrap=True)


def _rates(verdict: Verdict) -> Table:
    table = Table("set", "original WER %", "reproduction WER %", "difference")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, (old, new) in verdict.evidence.rates.items():
        table.add_row(name, f"{100 * old:.2f}", f"{100 * new:.2f}", f"{100 * (new - old):+.2f}")
    return table


def noise_line(name: str, noise: Noise) -> str:
    """The seed noise of a test set in one line, in percent."""
    deviation = "" if noise.deviation is None else f"sd {100 * noise.deviation:.2f}, "
    if noise.limit is None:
        return f"seed noise on {name}: {deviation}too few seeds to tell ({noise.source}; {FEWEST_SEEDS} are needed)"
    return f"seed noise on {name}: {deviation}two runs differ by up to {100 * noise.limit:.2f} ({noise.source})"


def cause_line(cause: Cause) -> str:
    """One difference in one line."""
    if cause.kind == "code" and ("/" in cause.what or cause.what.endswith(".py")):  # hashes of files say nothing
        return f"code: {cause.what} {_fate(cause)}"
    return f"{cause.kind}: {cause.what}: {_short(cause.original)} then, {_short(cause.reproduction)} now"


def _fate(cause: Cause) -> str:
    return "is new" if cause.original is None else "is gone" if cause.reproduction is None else "has changed"


def _short(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(content)}" for key, content in value.items())
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:12]}…"
