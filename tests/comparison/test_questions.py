"""Factorial questions: main effects, simple effects and the interaction of two crossed factors."""

import itertools

import pytest

from asr_ablations.comparison.comparison import compare_runs
from asr_ablations.comparison.design import Options
from asr_ablations.comparison.evidence import Evidence
from asr_ablations.comparison.result import Comparison
from asr_ablations.statistics.power import FixedLength
from asr_ablations.tools.errors import UsageError
from tests.helpers.invented_records import record, records

DECLARED = Evidence(FixedLength(), "declared")
RATES = {
    ("shuffled", "batch"): 0.20,
    ("sortagrad", "batch"): 0.21,
    ("shuffled", "none"): 0.50,
    ("sortagrad", "none"): 0.36,
}
"""Without batch norm SortaGrad gains 14 points, with it nothing: the effect of one factor depends on the other."""


def compared(contrasts: object, rates: dict[tuple[str, str], float] = RATES) -> Comparison:
    ablation = {"factor": ["order", "norm"], "baseline": "order=shuffled,norm=batch", "contrasts": contrasts}
    runs = [
        record(f"order={order} norm={norm}", seed, rate, ablation=ablation)
        for (order, norm), rate in rates.items()
        for seed in range(4)
    ]
    return compare_runs(records(runs), Options(), "test", DECLARED)


def means(comparison: Comparison) -> dict[tuple[str, str], float]:
    found = {}
    for arm in comparison.arms:
        rates = [run.summary.sets["test"].wer for run in arm.runs]
        found[arm.levels["order"], arm.levels["norm"]] = sum(rates) / len(rates)
    return found


def test_all_effects_of_two_crossed_factors_are_asked_where_nothing_else_is_declared() -> None:
    comparison = compared(None)
    kinds = [contrast.question.kind for contrast in comparison.contrasts]
    assert kinds == ["main effect"] * 2 + ["simple effect"] * 4 + ["interaction"]
    assert {contrast.family for contrast in comparison.contrasts} == {7}


def test_the_effects_are_those_of_the_means_of_the_arms() -> None:
    comparison = compared(["order", "order | norm=none", "order | norm=batch", "order:norm"])
    mean = means(comparison)
    without = mean["sortagrad", "none"] - mean["shuffled", "none"]
    with_ = mean["sortagrad", "batch"] - mean["shuffled", "batch"]
    expected = [(without + with_) / 2, without, with_, without - with_]
    assert [contrast.difference for contrast in comparison.contrasts] == pytest.approx(expected)
    assert [contrast.outcome for contrast in comparison.contrasts] == [
        "better", "better", "no difference shown", "interaction shown",
    ]  # fmt: skip
    sentence = comparison.verdicts[3].sentence
    assert sentence.startswith(
        "the effect of order=sortagrad against order=shuffled depends on the other factor on test"
    )
    assert "at norm=none less at norm=batch" in sentence


def test_no_interaction_is_shown_where_effects_add_up() -> None:
    rates = {
        ("shuffled", "batch"): 0.2,
        ("sortagrad", "batch"): 0.3,
        ("shuffled", "none"): 0.4,
        ("sortagrad", "none"): 0.5,
    }
    comparison = compared(["order:norm"], rates)
    assert comparison.contrasts[0].outcome == "no interaction shown"
    assert "is not shown to depend on the other factor" in comparison.verdicts[0].sentence


def test_more_levels_give_an_effect_for_each_beside_the_reference() -> None:
    levels = itertools.product(("32", "16"), ("1", "2", "4"))
    ablation = {
        "factor": ["precision", "ranks"],
        "baseline": "precision=32,ranks=1",
        "contrasts": ["ranks", "precision:ranks"],
    }
    runs = [
        record(f"precision={precision} ranks={ranks}", seed, 0.2, ablation=ablation)
        for precision, ranks in levels for seed in range(2)
    ]  # fmt: skip
    names = [contrast.arm for contrast in compare_runs(records(runs), Options(), "test").contrasts]
    assert names == [
        "ranks=2 (averaged over precision)", "ranks=4 (averaged over precision)",
        "precision=16 (at ranks=2 less at ranks=1)", "precision=16 (at ranks=4 less at ranks=1)",
    ]  # fmt: skip


@pytest.mark.parametrize("wrong", ["nrom", "order | norm=layer", "order:dropout", "order | order=shuffled"])
def test_a_contrast_of_other_factors_is_refused_with_the_choices(wrong: str) -> None:
    with pytest.raises(UsageError, match=r"ablation\.contrasts=.*expected factorial, a factor .*norm=none"):
        compared([wrong])


def test_contrasts_need_arms_that_are_fully_crossed() -> None:
    with pytest.raises(UsageError, match="every choice of both crossed; these arms are not"):
        compared(["order:norm"], dict(list(RATES.items())[:3]))


def test_three_of_four_arms_are_compared_with_the_baseline() -> None:
    kinds = {contrast.question.kind for contrast in compared(None, dict(list(RATES.items())[:3])).contrasts}
    assert kinds == {"arm"}
