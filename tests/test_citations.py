"""Papers are cited by keys that docs/papers.md explains; numbers that pages state stand in sweeps/RESULTS.md."""

import re
import subprocess
from bisect import bisect_left
from functools import cache
from pathlib import Path

import pytest

from asr_ablations.tools.files import REPOSITORY
from tests.helpers.command import pages

BIBLIOGRAPHY = REPOSITORY / "docs" / "papers.md"
NUMBERS = REPOSITORY / "tests" / "papers" / "published.yaml"
"""What the papers print, by paper and place."""

KEY = r"\b[A-Z][a-z]+(?:19|20)\d\d\b"
"""An author and a year without a space between them."""

PLACE = r" (?:§|tables? \d|figures? \d|chapter \d|equation \d|\{)"
"""A section, table, figure, chapter or equation; in braces, one that the code fills in."""


def texts() -> dict[Path, str]:
    """The text files that git tracks or would track, without the bibliography, which also names whole papers."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [
        REPOSITORY / name for name in names if Path(name).suffix in {".py", ".yaml", ".md", ".toml", ".html", ".js"}
    ]
    return {path: path.read_text(encoding="utf-8") for path in paths if path.is_file() and path != BIBLIOGRAPHY}


def joined(text: str) -> str:
    """The text without its line breaks, the indentation and the comment signs behind them."""
    return re.sub(r"\n\s*(?:# )?", " ", text)


def test_keys_are_recognised() -> None:
    assert re.findall(KEY, "(Doetsch2016 §4.3; Graves et al. 2006), Sys1$, CHiME2013") == ["Doetsch2016"]
    assert joined("a # Doetsch2016\n    # §4.3") == "a # Doetsch2016 §4.3"


def test_every_key_is_in_the_bibliography_and_used() -> None:
    def explained() -> set[str]:
        return set(re.findall(rf"^\| ({KEY}) \|", BIBLIOGRAPHY.read_text(encoding="utf-8"), flags=re.MULTILINE))

    used = {key for text in texts().values() for key in re.findall(KEY, text)}
    assert used == explained()


def test_every_citation_says_where_in_the_paper() -> None:
    without = {
        f"{path.relative_to(REPOSITORY)}: {citation}"
        for path, text in texts().items()
        for citation in re.findall(rf"(?:{KEY})(?!{PLACE}).{{0,30}}", joined(text))
        if path not in (Path(__file__), NUMBERS)
    }
    assert without == set()


def test_no_paper_is_cited_by_a_number() -> None:
    by_number = re.compile("papers" + r"/\d{3}")
    assert [
        path for path, text in {**texts(), BIBLIOGRAPHY: BIBLIOGRAPHY.read_text()}.items() if by_number.search(text)
    ] == []


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


def test_one_changed_digit_or_sign_is_noticed() -> None:
    results = {("+4.79", "+2.91", "+6.67")}
    for form in ("GRU: +4.79 WER (+2.91 to +6.67)", "the GRU is 4.79 behind\n(+2.91\nto +6.67; 5 seeds)"):
        assert unpublished(form, results) == []
        for right, wrong in (("4.79", "4.78"), ("+6.67", "+6.66"), ("+2.91", "-2.91")):
            assert len(unpublished(form.replace(right, wrong), results)) == 1
    assert unpublished("LSTM for GRU: -4.79 (+2.91 to +6.67)", results) != []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_every_quoted_verdict_is_in_the_results(page: Path) -> None:
    """Whole, as today's tool prints it. A schedule that ends is not called the end of training."""
    quoted = re.findall(r"^> ?(.*)\n?", read(page), re.MULTILINE)
    paragraphs = [" ".join(text.split()) for text in "\n".join(quoted).split("\n\n")]
    verdicts = [text for text in paragraphs if "% interval" in text]
    results = read(RESULTS).splitlines()
    assert [text for text in verdicts if f"- {text}" not in results] == []
    assert verdicts or page.stem not in ("README", "tutorial", "statistics")
    end = r"\bconverged\b|\bat the end of (?:the )?training\b"
    assert re.findall(end, " ".join(read(page).split()), re.IGNORECASE) == []
