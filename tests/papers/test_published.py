"""The five papers: published numbers, and the rows of docs/papers.md."""

import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from asr_ablations.tools.files import REPOSITORY
from asr_benchmarks.lstm.speed import RATIOS
from publish.claims import parse_commentary
from tests.helpers.sweep_files import NAMES, SWEEPS

TYPED = Path(__file__).parent / "published.yaml"
PAPERS: dict[str, dict[str, Any]] = yaml.safe_load(TYPED.read_text(encoding="utf-8"))
BRAUN, *_, BAUNSGAARD = PAPERS.values()
SYSTEMS = ("Sys1$", "Sys2$", "Sys10$")

KEY = r"[A-Z][a-z]+(?:19|20)\d\d"
PLACE = r"§\d+(?:\.\d+)*|(?:table|figure|chapter) \d+(?:\.\d+)*"
NUMBER = r"(?<![\w.§])\d+(?:\.\d+)?(?!\w)"


def numbers(node: Any) -> Iterator[float]:
    """Every number of a piece of published.yaml, keys included; those in the text of a table, too."""
    if isinstance(node, dict):
        yield from itertools.chain.from_iterable(numbers(part) for item in node.items() for part in item)
    elif isinstance(node, list):
        yield from itertools.chain.from_iterable(map(numbers, node))
    elif isinstance(node, str):
        yield from map(float, re.findall(NUMBER, node))
    elif node is not None:
        yield float(node)


def spelled_out(text: str) -> str:
    """Tables 4 and 5 as table 4, table 5."""
    several = re.compile(r"(table|figure)s (\d[\d.]*(?:, \d[\d.]*)*) and (\d[\d.]*\d|\d)")
    return several.sub(lambda found: ", ".join(f"{found[1]} {n}" for n in [*found[2].split(", "), found[3]]), text)


def unknown(text: str, source: str) -> list[str]:
    """Numbers of a text that stand at none of the places that it or its source cites, and places without an entry."""
    text, source = spelled_out(text), spelled_out(source)
    papers = [PAPERS[key] for key in re.findall(KEY, source)]
    places = [*re.findall(PLACE, source), *re.findall(PLACE, text)]
    known = {number for paper in papers for place in places for number in numbers(paper.get(place))}
    missing = [place for place in places if not any(place in paper for paper in papers)]
    said = re.sub(rf"{KEY}|{PLACE}", "", text)
    return [*missing, *(number for number in re.findall(NUMBER, said) if float(number) not in known)]


def what_was_published(head: str) -> str:
    """The paragraph `Published` of a sweep's head, in one line."""
    end = r"^#   |^# [A-Z][\w ]+:|Held fixed:|^[^#]"
    paragraph = re.search(rf"^# (Published.*?)(?:{end})", head, re.MULTILINE | re.DOTALL)
    return re.sub(r"\n# ", " ", paragraph[1]) if paragraph else ""


@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_sweeps_are_the_papers(name: str) -> None:
    text = (SWEEPS / f"{name}.yaml").read_text(encoding="utf-8")
    ablation = yaml.safe_load(text)["ablation"]
    rates = " ".join(str(rate) for sets in ablation.get("published", {}).values() for rate in sets.values())
    claims = [claim.says for claim in parse_commentary(ablation).claims]
    for said in (what_was_published(text), *claims, rates):
        assert unknown(said, ablation["source"]) == []


def test_sweeps_say_what_was_published() -> None:
    said = {name: what_was_published((SWEEPS / f"{name}.yaml").read_text(encoding="utf-8")) for name in NAMES}
    assert sum(len(re.findall(NUMBER, text)) for text in said.values()) > 40
    assert {name for name, text in said.items() if not text} <= {"hyperparameters"}


def test_rates_of_batch_sizes_are_those_of_table_5() -> None:
    printed = yaml.safe_load((SWEEPS / "batch_size.yaml").read_text(encoding="utf-8"))["ablation"]["published"]
    table, batches = BAUNSGAARD["table 5"], BAUNSGAARD["table 2"]
    assert printed == {
        f"batch.size={batches[name][0]}": {"test-clean": table[name][1], "test-other": table[name][3]}
        for name in SYSTEMS
    }


def test_ratios_of_lstms() -> None:
    """Each is printed, or follows by the arithmetic that it names from numbers that are."""
    for ratio in RATIOS:
        # the second: steps, in the name of a paragraph
        assert unknown(ratio.where, "Braun2018 §4") in ([], ["100", "1000"])
        computed = re.search(r": ([\d. /·]+)(?:;|$)", ratio.where)
        known = {number for place in re.findall(PLACE, ratio.where) for number in numbers(BRAUN[place])}
        if computed:
            factors = re.findall(r"(/?) ?(\d[\d.]*)", computed[1])
            value = math.prod(1 / float(n) if sign else float(n) for sign, n in factors)
            assert ratio.least == ratio.most == pytest.approx(value)
        else:
            assert {ratio.least, ratio.most} <= known


def test_every_row_of_a_paper_has_a_state_and_every_sweep_stands_in_one() -> None:
    """The rows of a paper's table: place, what it asks, command, state, result."""
    page = (REPOSITORY / "docs" / "papers.md").read_text(encoding="utf-8")
    parts = re.split(r"^### .*: (\w+)$", page, flags=re.MULTILINE)
    assert set(parts[1::2]) == set(re.findall(r"^\| (\w+\d{4}) \|", page, flags=re.MULTILINE))
    named: set[str] = set()
    for key, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = [line for line in body.splitlines() if line.startswith("| ")][2:]
        assert len(lines) >= 8, key
        for line in lines:
            place, asks, command, state, _ = [cell.strip() for cell in line.strip("|").split("|")]
            word, _, reason = state.partition(": ")
            assert all([place, asks, word in ("done", "partial", "missing", "not built")]), (key, line)
            assert reason if word != "done" else command, (key, line)
            named |= set(re.findall(r"-cn (\w+)", command))
    assert named == set(NAMES)
