"""The table of bad input in tests/campaign/inputs: a text file per command, a row per case.

A row is `arguments | exit codes | words | shell`: exit codes with commas between them; words that the output must hold,
with ; between them; lines of a shell that are run before. Of the arguments, NAME=value in front goes into the
environment, and `< file` is the standard input. What stands in <angle brackets> is filled in by InputPlaces.
"""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign.commands import Result

TABLE = Path(__file__).parent / "inputs"
TRACEBACK = "Traceback (most recent call last)"
FINE = "fine"
OUTCOMES = (FINE, "traceback", "silent", "wrong exit code", "wrong message", "hang", "crash", "executed")
"""silent: exit code 0 where a refusal is expected; crash: ended by a signal; executed: a file was made that only
foreign code makes.
"""


@dataclass(frozen=True)
class Case:
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
    """Every row of every file. Raises ValueError, which names the row, for one that is none."""
    return [
        _case(path, number, line)
        for path in sorted(folder.glob("*.txt"))
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1)
        if line.strip() and not line.startswith("#")
    ]


def _case(path: Path, number: int, line: str) -> Case:
    cells = [cell.strip() for cell in line.split("|", 3)]
    if len(cells) < 3 or not re.fullmatch(r"\d+(,\d+)*", cells[1]):
        raise ValueError(f"{path.name}:{number}: expected arguments | exit codes | words [| shell]: {line!r}")
    words = tuple(word.strip() for word in cells[2].split(";") if word.strip())
    return Case(path.stem, number, cells[0], tuple(map(int, cells[1].split(","))), words, "".join(cells[3:]))


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
    if executed:
        return "executed"
    if result.code is None:
        return "hang"
    if result.code < 0:
        return "crash"
    if TRACEBACK in printed:
        return "traceback"
    if "\x1b" in printed:  # none of the commands has a terminal here: it came with the input
        return "wrong message"
    if result.code not in case.codes:
        return "wrong exit code" if result.code else "silent"
    lines = result.errors.strip().splitlines()
    # the error is the last line; what it sums up, as the utterances that are bad, may stand above it
    told = bool(lines) and (lines[-1].startswith("error: ") or lines[0].startswith("usage:"))
    return FINE if (told or result.code != 2) and all(word in printed for word in words) else "wrong message"
