"""What a search tried, and its figure: invented runs under a real manifest's keys."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.comparison import compare_runs
from asr_ablations.comparison.derived_tables import Hyperparameter, hyperparameters
from asr_ablations.comparison.design import Options
from asr_ablations.comparison.result import Comparison
from asr_ablations.report.figures import write_figures
from asr_ablations.report.figures.search import draw_search
from asr_ablations.report.tables import search_section
from asr_ablations.report.terminal import print_answer
from tests.helpers.comparison import comparison
from tests.helpers.invented_records import diverged, record, records
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
    assert [path.name for path in write_figures(compared, tmp_path, [draw_search])] == [
        "search.png",
        "search.svg",
        "search.pdf",
    ]
    text = (tmp_path / "search.svg").read_text()
    assert all(f">{label}<" in text for label in ("optimizer.lr", "width", "best: 20.0 %", "0.003", "64", "128"))
    assert ">layers<" not in text
    assert "mathdefault" not in text


RATES = {"0.001": 0.4, "0.003": 0.2, "0.0100000001": 0.3}
"""The best validation WER by learning rate."""


def compared(*options: Options, confirmed: int = 0) -> Comparison:
    """A search of three runs and one that diverged; confirmed: runs of the best that were started afterwards."""
    own = []
    for rate, wer in RATES.items():
        run = record(f"lr={rate}", 0, wer + 0.1)
        own.append(replace(run, searched=True, summary=replace(run.summary, best_validation_wer=wer, epochs=4)))
    lost = replace(diverged("lr=9.0", 0), searched=True)
    later = [record("lr=0.003", seed, 0.3) for seed in range(1, 1 + confirmed)]
    return compare_runs(records([*own, lost], later), *options or [Options()], title="search")


def test_a_search_ranks_its_runs_and_decides_nothing() -> None:
    found = compared()
    assert found.verdicts == []
    section = search_section(found)
    assert section.head == ["lr", "validation", "test", "epochs"]
    assert [(row[0], row[1], row[3]) for row in section.rows] == [
        ("0.003", "20.00", "4"), ("0.01", "30.00", "4"), ("0.001", "40.00", "4"), ("9", "diverged", "NA"),
    ]  # fmt: skip
    measured = {row["arm"]: row["wer"] for row in found.rows}
    assert section.rows[0][2] == f"{100 * measured['lr=0.003']:.2f}"
    printed = StringIO()
    print_answer(found, Console(file=printed, width=80))
    assert printed.getvalue().index("0.003") < printed.getvalue().index("0.001")
    assert "No verdicts" in printed.getvalue()
    assert "undecided" not in printed.getvalue()


def test_who_asks_about_a_search_gets_verdicts() -> None:
    assert {verdict.contrast.baseline for verdict in compared(Options(baseline="lr=0.003")).verdicts} == {"lr=0.003"}


def test_beside_runs_that_confirm_it_a_search_is_an_arm() -> None:
    found = compared(confirmed=3)
    assert search_section(found).rows == []
    assert found.verdicts
