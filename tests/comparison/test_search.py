"""What a search tried, and its figure: invented runs under a real manifest's keys."""

from dataclasses import replace
from pathlib import Path

import pytest

from asr_ablations.comparison.arm import Arm
from asr_ablations.comparison.search import Hyperparameter, hyperparameters
from asr_ablations.report.figures import search, write_figures
from tests.helpers.comparison import comparison
from tests.helpers.search import FACTOR, searched


@pytest.fixture
def arms(tmp_path: Path) -> list[Arm]:
    return searched(tmp_path)


def test_what_was_tried_stands_by_key_with_the_best(arms: list[Arm]) -> None:
    """A key with one value in all runs has nothing to show."""
    assert hyperparameters(arms, FACTOR) == [
        Hyperparameter("optimizer.lr", [0.001, 0.003, 0.01], [0.4, 0.2, 0.3], 1, logarithmic=True),
        Hyperparameter("width", [64.0, 128.0, 64.0], [0.4, 0.2, 0.3], 1, logarithmic=False),
    ]


def test_options_of_a_group_are_text(arms: list[Arm]) -> None:
    named = [replace(arm, levels={"rnn": name}) for arm, name in zip(arms, ("lstm", "gru", "lstm"), strict=True)]
    assert [tried.values for tried in hyperparameters(named, ["rnn"])] == [["lstm", "gru", "lstm"]]


def test_only_what_a_search_proposed_counts(arms: list[Arm]) -> None:
    first, *others = arms
    declared = replace(first, runs=[replace(run, searched=False) for run in first.runs])
    assert [tried.rates for tried in hyperparameters([declared, *others], ["width"])] == [[0.2, 0.3]]
    assert hyperparameters([declared, declared, others[0]], FACTOR) == []


def test_a_search_has_a_panel_for_each_hyperparameter(arms: list[Arm], tmp_path: Path) -> None:
    compared = replace(comparison(tmp_path / "runs", seeds=1), arms=arms, factor=FACTOR)
    assert [path.name for path in write_figures(compared, tmp_path, [search])] == [
        "search.png",
        "search.svg",
        "search.pdf",
    ]
    text = (tmp_path / "search.svg").read_text()
    assert all(f">{label}<" in text for label in ("optimizer.lr", "width", "best: 20.0 %", "0.003", "64", "128"))
    assert ">layers<" not in text
    assert "mathdefault" not in text
