"""The table of bad input in tests/campaign/inputs: a text file per command, a row per case.

A row is `arguments | exit codes | words | shell`: exit codes with commas between them; words that the output must hold,
with ; between them; lines of a shell that are run before. Of the arguments, NAME=value in front goes into the
environment, and `< file` is the standard input. What stands in <angle brackets> is filled in by InputPlaces.
"""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.campaign.commands import Result

TABLE = Path(__file__).parent / "inputs"
FINE = "fine"
OUTCOMES = (FINE, "traceback", "silent", "wrong exit code", "wrong message", "hang", "crash", "executed")
"""silent: exit code 0 where a refusal is expected; crash: ended by a signal; executed: a file was made that only
foreign code makes.
"""


class Case(NamedTuple):
    """A row: what is typed after src/<command>.py, and what is expected of it."""

    command: str
    row: int
    typed: str
    codes: tuple[int, ...]
    words: tuple[str, ...]
    shell: str


@dataclass
class Words:
    """A row's arguments taken apart, every placeholder filled in."""

    arguments: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    stdin: Path | None = None


def read_table(folder: Path = TABLE) -> list[Case]:
    """Every row of every file."""
    cases = []
    for path in sorted(folder.glob("*.txt")):
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
            if line.strip() and not line.startswith("#"):
                typed, codes, words, *shell = (cell.strip() for cell in line.split("|", 3))
                told = tuple(word.strip() for word in words.split(";") if word.strip())
                cases.append(Case(path.stem, number, typed, tuple(map(int, codes.split(","))), told, "".join(shell)))
    return cases


def taken_apart(text: str) -> Words:
    """The arguments, the variables before them, and the file after a <."""
    words = Words(shlex.split(text))
    if "<" in words.arguments:
        place = words.arguments.index("<")
        words.stdin = Path(words.arguments[place + 1])
        del words.arguments[place : place + 2]
    while words.arguments and re.match(r"[A-Z_]+=", words.arguments[0]):
        name, _, value = words.arguments.pop(0).partition("=")
        words.environment[name] = value
    return words


def judge(case: Case, result: Result, words: tuple[str, ...], executed: bool) -> str:
    """The case's outcome. words: those of the case, placeholders filled in."""
    printed = result.out + result.errors
    if executed or result.code is None:
        return "executed" if executed else "hang"
    if result.code < 0:
        return "crash"
    if "Traceback (most recent call last)" in printed:
        return "traceback"
    if "\x1b" in printed:  # none of the commands has a terminal here: it came with the input
        return "wrong message"
    if result.code not in case.codes:
        return "wrong exit code" if result.code else "silent"
    lines = result.errors.strip().splitlines()
    # the error is the last line; what it sums up, as the utterances that are bad, may stand above it
    told = bool(lines) and (lines[-1].startswith("error: ") or lines[0].startswith("usage:"))
    return FINE if (told or result.code != 2) and all(word in printed for word in words) else "wrong message"
