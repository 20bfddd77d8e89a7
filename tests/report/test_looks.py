"""A sweep with a plan as a reader sees it: its looks and its cost, in every format."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import wandb
from rich.console import Console

from asr_ablations.report.figures import write_figures
from asr_ablations.report.page import content
from asr_ablations.report.training_report import report_comparison, sections
from asr_ablations.report.wandb import log_comparison
from asr_verdicts import plotting
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.design import Options
from asr_verdicts.planned_looks import spent
from asr_verdicts.report.files import write_texts
from asr_verdicts.report.looks import cost_lines, cost_section, furthest, hours, look_rows, looks_section
from asr_verdicts.report.terminal import print_answer
from asr_verdicts.terminal import VERDICT_STYLES
from tests.helpers.invented_records import records
from tests.helpers.planned import HOURS, LOOKS, MARGIN, RATES, planned, run
from tests.helpers.wandb_file import read_run

STATES = {"rnn=gru": "better", "rnn=rnn": "equivalent", "rnn=sru": "undecided", "rnn=fsmn": "worse"}
"""By the rates of the arms: 10 points below, equal, 2 points above with a large noise, 15 points above."""


@pytest.fixture(scope="module")
def ended() -> Comparison:
    return planned()


@pytest.fixture(scope="module")
def under_way() -> Comparison:
    return planned(LOOKS[0])


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"[+-]?\d+\.\d+", text.replace("−", "-"))]


def test_the_arms_end_as_they_were_made(ended: Comparison, under_way: Comparison) -> None:
    assert {row["arm"]: row["state"] for row in look_rows(ended)} == STATES
    assert {row["arm"]: row["state"] for row in look_rows(under_way)} == {
        **STATES,
        "rnn=rnn": "open",
        "rnn=sru": "open",
    }


def test_the_interval_shrinks_and_decides(ended: Comparison) -> None:
    """Better and worse: without 0; equivalent: within the margin; undecided: neither."""
    for arm, state in STATES.items():
        own = [row for row in look_rows(ended) if row["arm"] == arm]
        widths = [row["high"] - row["low"] for row in own]
        assert widths == sorted(widths, reverse=True)
        last = own[-1]
        assert (last["low"] > 0 or last["high"] < 0) == (state in ("better", "worse"))
        within = last["equal_low"] > -MARGIN and last["equal_high"] < MARGIN
        assert within == (state == "equivalent")


def test_the_section_shows_the_numbers_in_points(ended: Comparison) -> None:
    section = looks_section(ended)
    for cells, row in zip(section.rows, look_rows(ended), strict=True):
        assert cells[:3] == [row["arm"], str(row["look"]), str(row["seeds"])]
        told = [*numbers(cells[3]), *numbers(cells[4]), *numbers(cells[5])]
        values = [row[key] for key in ("difference", "low", "high", "equal_low", "equal_high")]
        assert told == pytest.approx([100 * value for value in values], abs=0.005)
        assert cells[6] == row["state"]
    assert "± 3 points" in section.lines[0]


def test_a_sweep_without_a_plan_shows_none_of_it() -> None:
    runs = [run(name, seed) for name in ("lstm", "gru") for seed in range(3)]
    comparison = compare(records(runs), Options(baseline="lstm"), "test")
    assert look_rows(comparison) == []
    assert cost_lines(comparison) == []
    assert not {"Looks", "Cost"} & {section.heading for section in sections(comparison)}


def test_the_cost_counts_what_the_looks_used(ended: Comparison, under_way: Comparison) -> None:
    """By hand: 3 + 8 + 8 + 3 seeds of the arms, and 8 of the baseline; of the fixed design 5 arms of 8 seeds. Under way
    nothing is saved for certain but the seeds of the two arms that are decided.
    """
    assert ended.course.plan is not None
    cost = spent(ended.course.plan, ended.course, ended.arms)
    assert (cost.runs, cost.fixed, cost.saved, cost.untimed, cost.taken_over) == (30, 40, 10, 0, {})
    assert cost.hours == pytest.approx(30 * HOURS)
    assert cost.hours_saved == pytest.approx(10 * HOURS)
    assert under_way.course.plan is not None
    early = spent(under_way.course.plan, under_way.course, under_way.arms)
    assert (early.runs, early.saved) == (15, 10)
    (line,) = cost_lines(under_way)
    assert "10 of 40 saved for certain so far" in line


def test_a_run_that_diverged_is_counted_and_has_no_time() -> None:
    comparison = planned(names=["lstm", "gru", "rnn"], lost=1)
    assert comparison.course.plan is not None
    cost = spent(comparison.course.plan, comparison.course, comparison.arms)
    assert cost.untimed == 1
    assert cost.hours == pytest.approx((cost.runs - 1) * HOURS)
    assert "not counting 1 run without a recorded time" in " ".join(cost_section(comparison).lines)


def test_runs_that_were_taken_over_are_named_by_their_sweep(tmp_path: Path) -> None:
    """A folder of the sweep that is a link to a run of another one."""
    whole = planned(names=["lstm", "gru"], folder=tmp_path / "until")
    (tmp_path / "until").mkdir()
    for seed in range(2):
        (tmp_path / "rnn_type" / f"rnn=lstm-{seed}").mkdir(parents=True)
        (tmp_path / "until" / f"rnn=lstm-{seed}").symlink_to(f"../rnn_type/rnn=lstm-{seed}")
    assert whole.course.plan is not None
    cost = spent(whole.course.plan, whole.course, whole.arms)
    assert cost.taken_over == {"rnn_type": 2}
    assert cost.hours_taken_over == pytest.approx(2 * HOURS)
    assert "2 from rnn_type (1 h of the training above)" in " ".join(cost_section(whole).lines)


def test_the_answer_in_the_terminal_has_states_plan_and_cost(ended: Comparison) -> None:
    console = Console(file=io.StringIO(), width=80)
    print_answer(report_comparison(ended), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    for arm, state in STATES.items():
        assert any(re.search(rf"{arm} .*{state}", line) for line in lines), arm
    assert "30 runs used, 15 h of training; 10 of 40 saved" in " ".join(text.split())
    assert {*STATES.values(), "open"} <= VERDICT_STYLES.keys()


def test_the_json_holds_plan_looks_and_cost(ended: Comparison, tmp_path: Path) -> None:
    (path,) = [path for path in write_texts(report_comparison(ended), tmp_path) if path.name == "comparison.json"]
    written = json.loads(path.read_text())
    assert written["plan"]["arms"] == [f"rnn={name}" for name in RATES]
    assert written["plan"]["looks"] == LOOKS
    assert written["looks"] == look_rows(ended)
    assert (written["spent"]["runs"], written["spent"]["saved"]) == (30, 10)


def test_a_long_interval_of_an_early_look_does_not_set_the_scale(ended: Comparison) -> None:
    """A chart goes at most 2.5 times as far as the latest looks, with a little room."""
    rows = look_rows(ended)
    inside = max(abs(row["high"]) for row in rows if row["arm"] == "rnn=fsmn")
    assert inside < furthest(rows, MARGIN) < 1.1 * 2.5 * inside
    assert furthest([{**rows[0], "low": -50.0}, *rows], MARGIN) == pytest.approx(1.08 * 2.5 * inside)


@pytest.mark.slow  # W&B's own process
def test_the_comparison_at_wandb_has_look_and_states(
    ended: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offline, as W&B writes it: a table of the looks, and the state of each question in the run's summary."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    log_comparison(ended, "mine", tmp_path)
    wandb.teardown()  # its process writes the last records after `finish`
    (path,) = tmp_path.rglob("*.wandb")
    logged = read_run(path)
    assert logged["summary"]["until/look"] == len(LOOKS)
    assert {arm: logged["summary"][f"until/state/{arm}"] for arm in STATES} == STATES
    assert "comparison/looks/path" in {key for row in logged["history"] for key in row}
    (table,) = tmp_path.rglob("looks_*.table.json")
    assert json.loads(table.read_text())["data"] == looks_section(ended).rows


def test_a_row_per_question_and_look_until_it_was_decided(ended: Comparison) -> None:
    places = [(row["arm"], row["look"], row["seeds"]) for row in look_rows(ended)]
    through = {"rnn=gru": 1, "rnn=rnn": 3, "rnn=sru": 3, "rnn=fsmn": 1}
    assert places == [(arm, look, LOOKS[look - 1]) for arm, last in through.items() for look in range(1, last + 1)]
    # a chance is told from five seeds on, and not at the last look, after which there is no other
    told = {(row["arm"], row["seeds"]) for row in look_rows(ended) if row["chance"] is not None}
    assert told == {("rnn=rnn", 5), ("rnn=sru", 5)}
    texts = [hours(value) for value in (0.0, 0.5, 0.004, 9.5, 1234.5)]
    assert texts == ["0 min", "30 min", "0.24 min", "9.5 h", "1,234 h"]
    shown = {section["heading"]: section for section in content(report_comparison(ended))["sections"]}  # type: ignore[attr-defined]
    assert shown["Looks"]["rows"] == looks_section(ended).rows
    assert shown["Cost"]["lines"] == cost_section(ended).lines


def test_the_figure_names_every_question_with_its_end(
    ended: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plotting, "FORMATS", {"svg": plotting.FORMATS["svg"]})
    assert write_figures(ended, tmp_path, ["looks"]) == [tmp_path / "looks.svg"]
    text = (tmp_path / "looks.svg").read_text()
    seeds = {"rnn=gru": 3, "rnn=rnn": 8, "rnn=sru": 8, "rnn=fsmn": 3}
    assert all(f">{arm}<" in text and f">{state} at {seeds[arm]} seeds<" in text for arm, state in STATES.items())
    assert ">margin 3 points<" in text
    bare = [  # without a finite interval the points alone are drawn
        replace(look, verdicts=[replace(contrast, low=None, high=None) for contrast in look.verdicts])
        for look in ended.course.looks
    ]
    comparison = replace(ended, course=replace(ended.course, looks=bare))
    assert write_figures(comparison, tmp_path, ["looks"]) != []
    assert all(row[4] == "NA" for row in looks_section(comparison).rows)
