"""Differences and intervals that the README and docs/ state stand in sweeps/RESULTS.md."""

import re
from bisect import bisect_left
from functools import cache
from pathlib import Path

import pytest

from asr_ablations.tools.files import REPOSITORY
from tests.helpers.command import pages

RESULTS = REPOSITORY / "sweeps" / "RESULTS.md"
INTERVAL = re.compile(r"([+-]\d+\.\d+)\s+to\s+([+-]\d+\.\d+)")
NUMBER = re.compile(r"(?<![\w.])[+-]?\d+\.\d+")

Statement = tuple[str, str, str]
"""Estimate, lower and upper end of the interval, as printed, with - for the minus."""


def read(page: Path) -> str:
    """A page with - for the minus and without its blocks, which quote what commands printed in other sessions."""
    text = page.read_text(encoding="utf-8").replace("−", "-")
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def statements(text: str) -> list[Statement]:
    """Every interval whose ends have signs, with the last number before it that has as many decimals."""
    numbers = [(number.start(), number[0], _decimals(number[0])) for number in NUMBER.finditer(text)]
    listed = []
    for interval in INTERVAL.finditer(text):
        low, high = interval.groups()
        end = bisect_left(numbers, (interval.start(),))
        before = (number for _, number, decimals in reversed(numbers[:end]) if decimals == _decimals(low))
        listed.append((next(before, ""), low, high))
    return listed


def _decimals(number: str) -> int:
    return len(number.partition(".")[2])


@cache
def published() -> set[Statement]:
    """The statements of RESULTS whose estimate lies in the interval."""
    every = statements(read(RESULTS))
    return {statement for statement in every if float(statement[1]) <= float(statement[0]) <= float(statement[2])}


def unpublished(text: str, results: set[Statement]) -> list[Statement]:
    """Statements that are not among the results. An estimate without a sign is a size: the GRU is 4.79 behind."""
    sizes = {(estimate.lstrip("+-"), low, high) for estimate, low, high in results}
    return [statement for statement in statements(text) if statement not in results | sizes]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_every_difference_and_its_interval_are_in_the_results(page: Path) -> None:
    assert unpublished(read(page), published()) == []


@pytest.mark.parametrize(
    "form", ["GRU: +4.79 WER (+2.91 to +6.67)", "the GRU is 4.79 behind\n(+2.91\nto +6.67; 5 seeds)"]
)
@pytest.mark.parametrize(
    ("right", "wrong"), [("4.79", "4.78"), ("+2.91", "+2.19"), ("+6.67", "+6.66"), ("+2.91", "-2.91")]
)
def test_one_changed_digit_or_sign_is_noticed(form: str, right: str, wrong: str) -> None:
    results = {("+4.79", "+2.91", "+6.67")}
    assert unpublished(form, results) == []
    assert len(unpublished(form.replace(right, wrong), results)) == 1
    assert unpublished("LSTM for GRU: -4.79 (+2.91 to +6.67)", results) != []


END = re.compile(r"\bconverged\b|\bat the end of (?:the )?training\b", re.IGNORECASE)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_budget_of_epochs_is_not_called_the_end_of_training(page: Path) -> None:
    """A schedule that lowers the rate to 0 ends, whatever the model could still learn."""
    assert END.findall(" ".join(read(page).split())) == []


QUOTED = re.compile(r"^> ?(.*)\n?", re.MULTILINE)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_every_quoted_verdict_is_in_the_results(page: Path) -> None:
    """A verdict is quoted whole, as today's tool prints it: RESULTS.md is written anew by its own tests."""
    paragraphs = [" ".join(text.split()) for text in "\n".join(QUOTED.findall(read(page))).split("\n\n")]
    verdicts = [text for text in paragraphs if "% interval" in text]
    results = read(RESULTS).splitlines()
    assert [text for text in verdicts if f"- {text}" not in results] == []
    assert verdicts or page.stem not in ("README", "tutorial", "statistics")
