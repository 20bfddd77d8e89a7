"""docs/papers.md lists what the papers ask: each row has a place, a state with its reason, and sweeps that exist."""

import re

from tests.helpers.command import REPOSITORY
from tests.helpers.sweep_files import NAMES

STATES = ("done", "partial", "missing", "not built")


def tables() -> dict[str, list[list[str]]]:
    """Key of a paper → its rows: place, what it asks, command, state, result."""
    page = (REPOSITORY / "docs" / "papers.md").read_text(encoding="utf-8")
    parts = re.split(r"^### .*: (\w+)$", page, flags=re.MULTILINE)
    return {key: rows(body) for key, body in zip(parts[1::2], parts[2::2], strict=True)}


def rows(text: str) -> list[list[str]]:
    """The cells of a table without its head."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_paper_has_a_table() -> None:
    page = (REPOSITORY / "docs" / "papers.md").read_text(encoding="utf-8")
    assert set(tables()) == set(re.findall(r"^\| (\w+\d{4}) \|", page, flags=re.MULTILINE))
    assert min(map(len, tables().values())) >= 8


def test_every_row_has_a_state_and_what_is_not_done_a_reason() -> None:
    for key, listed in tables().items():
        for row in listed:
            assert len(row) == 5, (key, row)
            place, asks, command, state, _ = row
            word, _, reason = state.partition(": ")
            assert place, (key, row)
            assert asks, (key, row)
            assert word in STATES, (key, row)
            assert word == "done" or reason, (key, row)
            assert command or word != "done", (key, row)


def test_every_sweep_stands_in_a_row_and_exists() -> None:
    commands = " ".join(row[2] for listed in tables().values() for row in listed)
    named = set(re.findall(r"-cn (\w+)", commands))
    assert named == set(NAMES)
