"""A source's claim beside a verdict: its conditions, its effects, and the agreement by the interval."""

from dataclasses import replace
from pathlib import Path

import pytest

from asr_ablations.comparison.claims import Agreement, Effect, agreement, agreements, parse_claims
from asr_ablations.comparison.comparison import compare
from asr_ablations.comparison.contrast import AtLook, Contrast, Verdict
from asr_ablations.comparison.declaration import parse
from asr_ablations.comparison.design import Options
from asr_ablations.comparison.result import Comparison
from tests.helpers.run_folders import write_sweep

ABLATION = {"question": "?", "factor": "rnn", "baseline": "lstm"}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """gru far worse than lstm; none has learned much but both have."""
    rates = {"rnn=lstm": 0.1, "rnn=gru": 0.3}
    return compare([write_sweep(tmp_path_factory.mktemp("outputs"), rates, seeds=4, ablation=ABLATION)], Options())


def placed(measured: Comparison, low: float, high: float, margin: float = 2.0) -> Contrast:
    """The contrast with another interval, and the margin of a plan, in points."""
    look = AtLook(1, 1, 4, 4, margin / 100, low / 100, high / 100)
    return replace(measured.contrasts[0], low=low / 100, high=high / 100, look=look, margin=margin / 100)


@pytest.mark.parametrize(
    ("effects", "low", "high", "outcome"),
    [
        ([Effect("worse")], 0.5, 2.6, "agrees"),
        ([Effect("better")], 0.5, 2.6, "disagrees"),
        ([Effect("better")], -1.5, 0.3, "cannot tell"),
        # shown to be worse, and within what would not matter: no contradiction to a source that says equivalent
        ([Effect("equivalent")], 0.2, 1.9, "agrees"),
        ([Effect("equivalent")], 0.5, 2.6, "cannot tell"),
        ([Effect("equivalent")], 2.1, 4.0, "disagrees"),
        # equivalent within the margin, where the source names no amount
        ([Effect("better")], -1.5, -0.1, "agrees"),
        ([Effect("better")], -1.0, 1.0, "cannot tell"),
        ([Effect("equivalent"), Effect("worse")], -1.0, 5.0, "agrees"),
        ([Effect("equivalent"), Effect("worse")], -5.0, -2.1, "disagrees"),
        ([Effect("worse", 1.4, 2.1)], 0.5, 1.5, "agrees"),
        ([Effect("worse", 1.4, 2.1)], 3.0, 9.0, "agrees in sign, not in size"),
        ([Effect("worse", 1.4, 2.1)], -3.0, -1.0, "disagrees"),
        ([Effect("better", 1.4, 2.1)], -2.0, -1.5, "agrees"),
        ([Effect("interaction shown")], 0.1, 3.0, "agrees"),
        ([Effect("interaction shown")], -0.1, 3.0, "cannot tell"),
    ],
)
def test_agreement_goes_by_the_interval(
    measured: Comparison, effects: list[Effect], low: float, high: float, outcome: str
) -> None:
    assert agreement(placed(measured, low, high), effects, measured.arms) == outcome


def test_a_margin_that_nobody_named_decides_nothing(measured: Comparison) -> None:
    contrast = replace(placed(measured, 0.1, 1.0), margin=None)
    assert agreement(contrast, [Effect("equivalent")], measured.arms) == "cannot tell"
    assert agreement(contrast, [Effect("equivalent", 2, 2)], measured.arms) == "agrees"


@pytest.mark.parametrize(("rate", "outcome"), [(0.3, "disagrees"), (0.95, "agrees")])
def test_a_model_that_learns_refutes_that_it_does_not_however_far_it_is_behind(
    measured: Comparison, rate: float, outcome: str
) -> None:
    contrast = replace(placed(measured, 10, 30), arm_mean=rate)
    within = replace(contrast, question=replace(contrast.question, kind="simple effect"))
    both = replace(contrast, question=replace(contrast.question, kind="main effect"))
    assert agreement(contrast, [Effect("not learned")], measured.arms) == outcome
    assert agreement(within, [Effect("not learned")], measured.arms) == outcome
    assert agreement(both, [Effect("not learned")], measured.arms) == "cannot tell"  # a mean of several arms


def held(measured: Comparison, **claim: object) -> Agreement:
    claims = parse_claims({"says": "it is", "expected": {"rnn=gru": "worse"}, **claim}, None)
    (one,) = agreements(Verdict(placed(measured, 0.5, 2.6), ""), claims, measured.arms)
    return one


@pytest.mark.parametrize(
    ("where", "unmet"),
    [
        ({}, ""),
        ({"max_epochs": {"least": 100}}, "max_epochs is {} here, at least 100 there"),
        ({"max_epochs": {"most": 1000}}, ""),
        ({"rnn": ["lstm", "gru"]}, ""),
        ({"rnn": "lstm"}, "rnn is gru and lstm here, lstm there"),
        ({"data.words": {"least": 3000}}, "data.words is null here, at least 3000 there"),
    ],
)
def test_runs_that_do_not_meet_a_condition_neither_agree_nor_disagree(
    measured: Comparison, where: dict[str, object], unmet: str
) -> None:
    one = held(measured, about="long trainings", where=where)
    epochs = measured.runs[0].config["max_epochs"]
    assert one.unmet == ([unmet.format(epochs)] if unmet else [])
    assert one.outcome == ("not comparable: the claim is about long trainings" if unmet else "agrees")


def test_a_claim_that_no_run_can_meet_says_why(measured: Comparison) -> None:
    one = held(measured, not_comparable="tuned rates")
    assert (one.outcome, one.expected) == ("not comparable: the claim is about tuned rates", "worse")


def test_two_claims_about_one_question_are_both_shown(tmp_path: Path) -> None:
    early = {
        "says": "early",
        "about": "few epochs",
        "where": {"max_epochs": {"most": 0}},
        "expected": {"gru": "better"},
    }
    late = {"says": "late", "expected": {"gru": "worse"}}
    sweep = write_sweep(
        tmp_path, {"rnn=lstm": 0.1, "rnn=gru": 0.3}, seeds=4, ablation={**ABLATION, "claim": [early, late]}
    )
    lines = compare([sweep], Options()).literature
    assert lines[:2] == ["claim: early (about few epochs)", "claim: late"]
    assert any(
        "expected better, measured worse: not comparable: the claim is about few epochs (" in line for line in lines
    )
    assert "rnn=gru: expected worse, measured worse: agrees" in lines


def test_an_answer_is_withdrawn_for_the_runs_of_a_commit_alone(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, {"rnn=lstm": 0.1, "rnn=gru": 0.3}, seeds=4, ablation=ABLATION)

    def compared(commit: str) -> Comparison:
        said = parse({**ABLATION, "withdrawn": {commit: {"gru": "its baseline clips"}}})
        return compare([sweep], Options(commentary=said))

    (verdict,) = compared("0123").answer
    assert verdict.sentence.startswith("withdrawn: its baseline clips; it read: rnn=gru is worse than rnn=lstm")
    assert compared("0123").withdrawn == {"rnn=gru": "its baseline clips"}
    assert compared("9999").withdrawn == {}
    assert compared("9999").answer[0].sentence.startswith("rnn=gru is worse than rnn=lstm")
