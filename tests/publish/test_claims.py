"""A source's claim beside a verdict: its conditions, its effects, and the agreement by the interval."""

from dataclasses import replace
from pathlib import Path

import pytest

from asr_ablations.comparison.folders import compare_folders
from asr_verdicts.comparison import Comparison
from asr_verdicts.design import Options
from asr_verdicts.verdict import AtLook, Verdict
from publish.claims import Effect, describe_literature, find_agreements, judge, parse_commentary
from tests.helpers.run_folders import write_sweep

ABLATION = {"question": "?", "factor": "rnn", "baseline": "lstm"}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """gru far worse than lstm; none has learned much but both have."""
    rates = {"rnn=lstm": 0.1, "rnn=gru": 0.3}
    return compare_folders(
        [write_sweep(tmp_path_factory.mktemp("outputs"), rates, seeds=4, ablation=ABLATION)], Options()
    )


def placed(measured: Comparison, low: float, high: float, margin: float = 2.0) -> Verdict:
    """The contrast with another interval, and the margin of a plan, in points."""
    look = AtLook(1, 1, 4, 4, margin / 100, low / 100, high / 100)
    return replace(measured.verdicts[0], low=low / 100, high=high / 100, look=look, margin=margin / 100)


def test_agreement_goes_by_the_interval(measured: Comparison) -> None:
    equivalent, worse, better = (Effect(name) for name in ("equivalent", "worse", "better"))
    sized = Effect("worse", (1.4, 2.1))
    for effects, low, high, outcome in (
        ([worse], 0.5, 2.6, "agrees"), ([better], 0.5, 2.6, "disagrees"), ([better], -1.5, 0.3, "cannot tell"),
        # shown to be worse, and within what would not matter: no contradiction to a source that says equivalent
        ([equivalent], 0.2, 1.9, "agrees"), ([equivalent], 0.5, 2.6, "cannot tell"),
        ([equivalent], 2.1, 4.0, "disagrees"),
        # equivalent within the margin, where the source names no amount
        ([better], -1.5, -0.1, "agrees"), ([better], -1.0, 1.0, "cannot tell"),
        ([equivalent, worse], -1.0, 5.0, "agrees"), ([equivalent, worse], -5.0, -2.1, "disagrees"),
        ([sized], 0.5, 1.5, "agrees"), ([sized], 3.0, 9.0, "agrees in sign, not in size"),
        ([sized], -3.0, -1.0, "disagrees"), ([Effect("better", (1.4, 2.1))], -2.0, -1.5, "agrees"),
    ):  # fmt: skip
        assert judge(placed(measured, low, high), effects, measured.arms) == outcome
    unnamed = replace(placed(measured, 0.1, 1.0), margin=None)  # a margin that nobody named decides nothing
    assert judge(unnamed, [equivalent], measured.arms) == "cannot tell"
    assert judge(unnamed, [Effect("equivalent", (2, 2))], measured.arms) == "agrees"


def test_a_model_that_learns_refutes_that_it_does_not_however_far_it_is_behind(measured: Comparison) -> None:
    effects = [Effect("not learned")]
    for rate, outcome in ((0.3, "disagrees"), (0.95, "agrees")):
        contrast = replace(placed(measured, 10, 30), rate=rate)
        within = replace(contrast, question=replace(contrast.question, kind="simple effect"))
        both = replace(contrast, question=replace(contrast.question, kind="main effect"))
        assert judge(contrast, effects, measured.arms) == judge(within, effects, measured.arms) == outcome
        assert judge(both, effects, measured.arms) == "cannot tell"  # a mean of several arms


def test_runs_that_do_not_meet_a_condition_neither_agree_nor_disagree(measured: Comparison) -> None:
    def hold(**claim: object) -> tuple[str, str, str]:
        """What the claim expects, the outcome, and the conditions that are not met."""
        node = {"claim": {"says": "it is", "expected": {"rnn=gru": "worse"}, **claim}}
        claims = parse_commentary(node, measured.arms, measured.baseline).claims
        (agreement,) = find_agreements(placed(measured, 0.5, 2.6), claims, measured.arms)
        return agreement

    cases: list[tuple[dict[str, object], str]] = [
        ({}, ""), ({"max_epochs": {"most": 1000}}, ""), ({"rnn": ["lstm", "gru"]}, ""),
        ({"max_epochs": {"least": 100}}, "max_epochs is {} here, at least 100 there"),
        ({"rnn": "lstm"}, "rnn is gru and lstm here, lstm there"),
        ({"data.words": {"least": 3000}}, "data.words is null here, at least 3000 there"),
    ]  # fmt: skip
    for where, unmet in cases:
        outcome = "not comparable: the claim is about long trainings" if unmet else "agrees"
        reason = unmet.format(measured.runs[0].config["max_epochs"])
        assert hold(about="long trainings", where=where) == ("worse", outcome, reason)
    outcome = "not comparable: the claim is about tuned rates"
    assert hold(not_comparable="tuned rates") == ("worse", outcome, "tuned rates")


def said(declared: dict[str, object], comparison: Comparison) -> list[str]:
    return describe_literature(parse_commentary(declared, comparison.arms, comparison.baseline), comparison)


def test_the_literature_is_held_against_the_measurement(tmp_path: Path) -> None:
    """lstm and rnn are alike, gru is far worse."""
    rates = {"rnn=lstm": 0.1, "rnn=gru": 0.3, "rnn=rnn": 0.1}
    sweep = write_sweep(tmp_path, rates, seeds=4, ablation=ABLATION)
    declared = {
        "claim": "it is", "expected": {"gru": {"equivalent": 2}, "rnn": "worse"}, "baseline": "lstm",
        "published": {"lstm": {"test": 5.0}, "gru": {"test": 6.0}, "rnn": {"test": 4.0}},
    }  # fmt: skip
    lines = said(declared, compare_folders([sweep], Options()))
    assert lines[0] == "claim: it is"
    assert any(line.startswith("rnn=gru on test: published 6.00 WER, measured 2") for line in lines)
    assert "rnn=gru: expected equivalent within 2, measured worse: disagrees" in lines
    assert "rnn=rnn: expected worse, measured not shown: cannot tell" in lines
    turned = said(declared, compare_folders([sweep], Options(baseline="gru")))
    assert turned[0] == "claim: it is"
    assert not [line for line in turned if "expected" in line], "what is expected is of the declared baseline alone"


def test_mistakes_are_not_passed_over(measured: Comparison) -> None:
    where = {"seed": {"atleast": 3}}
    cases: list[tuple[dict[str, object], str]] = [
        ({"expected": {"gru": "good"}}, "good: expected better, worse, equivalent"),
        ({"expected": {"gru": {"worse": [2, 1]}}}, r"\{'worse': \[2, 1\]\}"),
        ({"expected": {"gru": {"worse": 1, "better": 2}}}, "too many values"),
        ({"claim": {"about": "LibriSpeech"}}, "says"),
        ({"claim": {"says": "yes", "abuot": "?"}}, "abuot"),
        ({"claim": {"says": "yes", "where": where, "expected": {"gru": "worse"}}}, "too many values"),
    ]
    for node, error in cases:
        with pytest.raises((AssertionError, TypeError, ValueError), match=error):
            said(node, measured)
    line = "ablation.expected: rgu is not a question here; expected one of rnn=gru"
    assert line in said({"expected": {"rgu": "worse"}}, measured)
