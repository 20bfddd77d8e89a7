"""The papers are cited by keys that docs/papers.md explains, each with its place in the paper."""

import re
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
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


def explained() -> set[str]:
    return set(re.findall(rf"^\| ({KEY}) \|", BIBLIOGRAPHY.read_text(encoding="utf-8"), flags=re.MULTILINE))


def test_keys_are_recognised() -> None:
    assert re.findall(KEY, "(Doetsch2016 §4.3; Graves et al. 2006), Sys1$, CHiME2013") == ["Doetsch2016"]
    assert joined("a # Doetsch2016\n    # §4.3") == "a # Doetsch2016 §4.3"


def test_every_key_is_in_the_bibliography_and_used() -> None:
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
