"""A sweep with a plan as a reader sees it: its looks and its cost, in every format."""

import json
from pathlib import Path

import pytest
import wandb

from asr_ablations.report.page import content
from asr_ablations.report.training_report import report_comparison, sections
from asr_ablations.report.wandb import log_comparison
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.design import Options
from asr_verdicts.planned_looks import spent
from asr_verdicts.report.files import write_texts
from asr_verdicts.report.looks import cost_lines, cost_section, look_rows, looks_section
from tests.helpers.invented_records import records
from tests.helpers.planned import HOURS, LOOKS, MARGIN, RATES, planned, run
from tests.helpers.wandb_file import read_run

STATES = {"rnn=gru": "better", "rnn=rnn": "equivalent", "rnn=sru": "undecided", "rnn=fsmn": "worse"}


@pytest.fixture(scope="module")
def ended() -> Comparison:
    return planned()


@pytest.fixture(scope="module")
def under_way() -> Comparison:
    return planned(LOOKS[0])


def test_the_arms_end_as_they_were_made_and_the_interval_decides(ended: Comparison, under_way: Comparison) -> None:
    """Better and worse: without 0; equivalent: within the margin; undecided: neither."""
    assert {row["arm"]: row["state"] for row in look_rows(ended)} == STATES
    open_ = {"rnn=rnn": "open", "rnn=sru": "open"}
    assert {row["arm"]: row["state"] for row in look_rows(under_way)} == {**STATES, **open_}
    for arm, state in STATES.items():
        own = [row for row in look_rows(ended) if row["arm"] == arm]
        widths = [row["high"] - row["low"] for row in own]
        assert widths == sorted(widths, reverse=True)
        last = own[-1]
        assert (last["low"] > 0 or last["high"] < 0) == (state in ("better", "worse"))
        within = last["equal_low"] > -MARGIN and last["equal_high"] < MARGIN
        assert within == (state == "equivalent")


def test_the_cost_counts_what_the_looks_used(ended: Comparison, under_way: Comparison) -> None:
    """By hand: 3 + 8 + 8 + 3 seeds of the arms and 8 of the baseline; of the fixed design 5 arms of 8 seeds."""
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
    comparison = planned(names=["lstm", "gru", "rnn"], lost=1)
    assert comparison.course.plan is not None
    cost = spent(comparison.course.plan, comparison.course, comparison.arms)
    assert (cost.untimed, cost.hours) == (1, pytest.approx((cost.runs - 1) * HOURS))
    runs = [run(name, seed) for name in ("lstm", "gru") for seed in range(3)]
    comparison = compare(records(runs), Options(baseline="lstm"), "test")
    assert look_rows(comparison) == []
    assert cost_lines(comparison) == []
    assert not {"Looks", "Cost"} & {section.heading for section in sections(comparison)}


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


def test_the_json_holds_plan_looks_and_cost(ended: Comparison, tmp_path: Path) -> None:
    (path,) = [path for path in write_texts(report_comparison(ended), tmp_path) if path.name == "comparison.json"]
    written = json.loads(path.read_text())
    assert written["plan"]["arms"] == [f"rnn={name}" for name in RATES]
    assert written["plan"]["looks"] == LOOKS
    assert written["looks"] == look_rows(ended)
    assert (written["spent"]["runs"], written["spent"]["saved"]) == (30, 10)


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
    shown = {section["heading"]: section for section in content(report_comparison(ended))["sections"]}  # type: ignore[attr-defined]
    assert shown["Looks"]["rows"] == looks_section(ended).rows
    assert shown["Cost"]["lines"] == cost_section(ended).lines
