"""Planned looks and their questions."""

import itertools
import random
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from asr_ablations.comparison.folders import lay_out
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.evidence import Evidence
from asr_verdicts.planned_looks import NO_LOOKS, follow
from asr_verdicts.record import Records
from asr_verdicts.statistics.procedures import FixedLength
from tests.helpers.false_alarms import World
from tests.helpers.invented_records import record, records
from tests.helpers.planned_worlds import SETTINGS, Setting, invented, simulate

OPTIONS = Options()
QUIET = World(seeds=(0.002,), speakers=30, words=2000, arm_speaker=0.0, run_speaker=0.0)


def planned_records(setting: Setting, seed: int, runs: int | None = None, order: int = 0) -> Records:
    """The first runs of an invented sweep, in one of many random orders."""
    arms = invented(setting, np.random.default_rng(seed))
    all_ = [run for arm in arms for run in arm.results if runs is None or run.seed < runs]
    random.Random(order).shuffle(all_)
    return Records([run for run in all_ if run.diverged_at is None], [run for run in all_ if run.diverged_at])


def follow_in(setting: Setting, runs: Records, options: Options = OPTIONS) -> Comparison:
    """The runs compared by the plan of their sweep."""
    return compare(runs, options, "sweep", layout=lay_out(runs, options, setting.plan()))


def test_a_clear_answer_is_given_at_the_first_look() -> None:
    for effect, outcome, again in (
        (0.05, "worse", "100 %"), (-0.05, "better", "100 %"), (0.0, "equivalent", "60 to 76 %")
    ):  # fmt: skip
        setting = Setting(replace(QUIET, effects=(0.0, effect)))
        course = follow(setting.plan(), invented(setting, np.random.default_rng(0)), setting.questions())
        assert [(contrast.outcome, contrast.again) for contrast in course.verdicts] == [(outcome, again)]
        assert replace(course.verdicts[0], look=None).again is None  # not of a plan
        assert [look.runs for look in course.looks] == [3]
        assert course.ended
        assert course.runs(setting.plan()) == {"arm 0": 3, "arm 1": 3}


def test_a_decided_arm_gets_no_more_runs_and_a_question_without_hope_neither() -> None:
    setting = Setting(World(effects=(0.0, 0.2, 0.018), speakers=40), arms=3)
    arms = invented(setting, np.random.default_rng(3))
    plan, questions = setting.plan(), setting.questions()
    course = follow(plan, arms, questions)
    first, second = course.verdicts
    assert first.outcome == "worse"
    assert first.look.runs == 3 < second.look.runs
    assert course.runs(plan) == {"arm 0": second.look.runs, "arm 1": 3, "arm 2": second.look.runs}
    fewer = [replace(arm, runs=arm.runs[:3]) if arm.name == "arm 1" else arm for arm in arms]
    assert follow(plan, fewer, questions).verdicts == course.verdicts, "its later runs were never looked at"
    setting = Setting(World(speakers=40), margin=0.002, hopeless=0.1)
    course = follow(setting.plan(), invented(setting, np.random.default_rng(4)), setting.questions())
    (contrast,) = course.verdicts
    assert contrast.outcome == "undecided"
    assert contrast.look.runs < 20
    assert contrast.look.chance is not None
    assert contrast.look.chance < 0.1
    setting = Setting(World(effects=(0.0, 0.018)))
    arms = invented(setting, np.random.default_rng(0))
    some = [replace(arm, runs=[run for run in arm.runs if run.seed < 4]) for arm in arms]
    some[0] = replace(some[0], runs=[run for run in some[0].runs if run.seed != 1])
    course = follow(setting.plan(), some, setting.questions())
    assert course.missing == {"arm 0": [1]}, "the first look waits"
    whole = [replace(arm, runs=[run for run in arm.runs if run.seed < 4]) for arm in arms]
    course = follow(setting.plan(), whole, setting.questions())
    assert (len(course.looks), course.missing) == (1, {"arm 0": [4], "arm 1": [4]})


def test_runs_of_another_content_are_left_out_and_named() -> None:
    setting = Setting(World())
    found = planned_records(setting, 0)
    stranger = replace(
        found.runs[0], config={**found.runs[0].config, "choice": "other"}, folder=found.runs[0].folder / "x"
    )
    comparison = follow_in(setting, replace(found, runs=[*found.runs, stranger]))
    assert any("the plan does not include them" in warning for warning in comparison.warnings)
    assert {arm.name for arm in comparison.arms} == {"arm 0", "arm 1"}


DECLARED = Evidence(FixedLength(), "declared")
RATES = {
    ("shuffled", "batch"): 0.20,
    ("sortagrad", "batch"): 0.21,
    ("shuffled", "none"): 0.50,
    ("sortagrad", "none"): 0.36,
}


def compared(contrasts: object, rates: dict[tuple[str, str], float] = RATES) -> Comparison:
    ablation = {"factor": ["order", "norm"], "baseline": "order=shuffled,norm=batch", "contrasts": contrasts}
    runs = [
        record(f"order={order} norm={norm}", seed, rate, ablation=ablation)
        for (order, norm), rate in rates.items()
        for seed in range(4)
    ]
    return compare(records(runs), Options(), "test", DECLARED)


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
    names = [contrast.arm for contrast in compare(records(runs), Options(), "test").verdicts]
    assert names == [
        "ranks=2 (averaged over precision)", "ranks=4 (averaged over precision)",
        "precision=16 (at ranks=2 less at ranks=1)", "precision=16 (at ranks=4 less at ranks=1)",
    ]  # fmt: skip


def test_the_effects_of_two_crossed_factors_are_those_of_the_means_of_the_arms() -> None:
    everything = compared(None)  # all effects are asked if nothing else is declared
    kinds = [contrast.question.kind for contrast in everything.verdicts]
    assert kinds == ["main effect"] * 2 + ["simple effect"] * 4 + ["interaction"]
    assert {contrast.family for contrast in everything.verdicts} == {7}
    comparison = compared(["order", "order | norm=none", "order | norm=batch", "order:norm"])
    mean = {
        (arm.levels["order"], arm.levels["norm"]): np.mean([run.summary.sets["test"].wer for run in arm.runs])
        for arm in comparison.arms
    }
    without = mean["sortagrad", "none"] - mean["shuffled", "none"]
    with_ = mean["sortagrad", "batch"] - mean["shuffled", "batch"]
    expected = [(without + with_) / 2, without, with_, without - with_]
    assert [contrast.difference for contrast in comparison.verdicts] == pytest.approx(expected)
    outcomes = [contrast.outcome for contrast in comparison.verdicts]
    assert outcomes == ["better", "better", "not shown", "interaction shown"]
    sentence = comparison.verdicts[3].sentence
    start = "The effect of order=sortagrad against order=shuffled depends on the other factor on test"
    assert sentence.startswith(start)
    assert "at norm=none less at norm=batch" in sentence
    adding = dict(zip(RATES, (0.2, 0.3, 0.4, 0.5), strict=True))
    (verdict,) = compared(["order:norm"], adding).verdicts
    assert verdict.outcome == "no interaction shown"
    assert "is not shown to depend on the other factor" in verdict.sentence


def test_a_contrast_that_the_arms_do_not_have_is_refused_with_the_choices() -> None:
    for wrong in ("nrom", "order | norm=layer", "order:dropout", "order | order=shuffled"):
        with pytest.raises(UsageError, match=r"ablation\.contrasts=.*expected factorial, a factor .*norm=none"):
            compared([wrong])
    three = dict(list(RATES.items())[:3])
    with pytest.raises(UsageError, match="arms that are all combinations of two factors; these are not"):
        compared(["order:norm"], three)
    assert {contrast.question.kind for contrast in compared(None, three).verdicts} == {"arm"}


def test_state_and_interval_agree_at_every_look_in_any_order_of_the_runs() -> None:
    setting = Setting(World(effects=(0.0, 0.0, 0.02, 0.05), speakers=40), arms=4)
    for seed in range(12):
        arms = invented(setting, np.random.default_rng(seed))
        course = follow(setting.plan(), arms, setting.questions(), describe=False)
        for contrast in (contrast for look in course.looks for contrast in look.verdicts):
            assert contrast.low is not None
            assert contrast.high is not None
            excludes = contrast.low > 0 or contrast.high < 0
            assert excludes == (contrast.outcome in ("better", "worse"))
            if contrast.outcome == "equivalent":
                assert -setting.margin < contrast.look.low < contrast.look.high < setting.margin
    setting = Setting(World(effects=(0.0, 0.03)))
    orders = [planned_records(setting, 5, order=order) for order in (0, 1)]
    assert [run.folder for run in orders[0].runs] != [run.folder for run in orders[1].runs]
    first, second = (follow_in(setting, one).verdicts for one in orders)
    assert [verdict.sentence for verdict in first] == [verdict.sentence for verdict in second]


def test_comparing_shows_the_states_of_the_plan_and_no_other_p() -> None:
    setting = Setting(World(effects=(0.0, 0.018), speakers=40))
    runs = planned_records(setting, 0, runs=6)
    comparison = follow_in(setting, runs)
    (verdict,) = comparison.answer
    assert verdict.outcome == "open"
    assert "Look 2 of 5; " in verdict.sentence
    assert comparison.evidence.procedure.name == "sequential"
    assert verdict.seeds == {"arm 0": 5, "arm 1": 5}, "the sixth run is not looked at before its time"
    other = follow_in(setting, runs, Options(baseline="arm 1"))  # is not the plan's question
    assert (other.evidence.procedure.name, other.course) == ("anytime", NO_LOOKS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["arm × 3", "5 % diverged", "10 speakers"])
def test_equal_arms_are_seldom_called_different(name: str) -> None:
    """5 % are allowed; three standard errors of 150 sweeps, and the point that Welch's approximation takes."""
    assert simulate(SETTINGS[name], 150, 0).alarm_rate <= 0.06 + 3 * sqrt(0.05 * 0.95 / 150)


@pytest.mark.slow
def test_what_is_found_and_what_it_costs_is_as_published_for_the_design() -> None:
    """Against another simulation of 20,000 sweeps of the same design; 150 sweeps: three standard errors."""
    for name, outcome, share, runs in (
        ("no effect", "equivalent", 0.81, 36.6), ("1 sd", "worse", 0.84, 31.0), ("2 sd", "worse", 1.0, 16.0)
    ):  # fmt: skip
        ends = simulate(SETTINGS[name], 150, 1)
        assert ends.share(1, outcome) == pytest.approx(share, abs=max(0.02, 3 * sqrt(share * (1 - share) / 150)))  # type: ignore[arg-type]
        assert ends.mean_runs == pytest.approx(runs, abs=2.5)
        if name == "no effect":
            assert ends.alarm_rate <= 0.06 + 3 * sqrt(0.05 * 0.95 / 150)
