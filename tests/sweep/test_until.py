"""Sweeps that end by a verdict, and their standing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from asr_ablations.components.until.verdict import UntilVerdict
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import STANDING
from asr_ablations.runs.records import load
from asr_ablations.runs.sweep_history import read_plan
from asr_ablations.sweep.arm import FrozenArm, freeze_arm
from asr_ablations.sweep.manifest import freeze_plan, write_manifest
from asr_ablations.sweep.until.ablation import arms_and_seeds, standing, take_over
from asr_ablations.sweep.until.planning import ArmConfigs, continued, make_plan, never_trained
from asr_verdicts.comparison import Comparison
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json, write_json
from tests.helpers.planned import LOOKS, planned
from tests.helpers.run_folders import declare, edit, write_run
from tests.helpers.support import compose


def keys(**changed: Any) -> UntilVerdict:
    usual: dict[str, Any] = {
        "margin": 2.0, "seeds": None, "runs": None, "hours": None, "looks": None, "alpha": 0.05, "gamma": -1.0,
        "robust": False, "paired": False, "hopeless": 0.1, "share": True, "retries": 2,
    }  # fmt: skip
    return UntilVerdict(**{**usual, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"margin": 0}, r"until\.margin=0: expected a number above 0"),
        ({"looks": [1, 3]}, r"until\.looks=\[1, 3\]: expected increasing whole numbers from 2 on"),
        ({"hopeless": 1}, r"until\.hopeless=1: expected a number from 0 to below 1"),
        ({"share": "yes"}, r"until\.share=yes: expected true or false"),
    ],
)
def test_wrong_values_are_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        keys(**changed)


def test_the_smallest_budget_says_how_many_seeds() -> None:
    assert keys().most_seeds(3, None) == 20
    assert keys(runs=60).most_seeds(3, None) == 20
    assert keys(runs=60, seeds=8).most_seeds(3, None) == 8
    assert keys(hours=6.0).most_seeds(3, 0.25) == 8
    assert keys(looks=[3, 6]).most_seeds(3, None) == 6
    with pytest.raises(UsageError, match=r"until\.runs=5: expected enough for 2 seeds of each of 3 arms"):
        keys(runs=5).most_seeds(3, None)
    with pytest.raises(UsageError, match=r"until\.looks=\[3, 30\]: expected at most 20 seeds"):
        keys(looks=[3, 30]).look_seeds(20)


def test_arms_are_the_runs_without_what_belongs_to_seeds_and_plan() -> None:
    runs = [
        [f"rnn={rnn}", f"seed={seed}", "until=verdict", "until.margin=2", "width=8"] for rnn in "ab" for seed in (4, 7)
    ]
    assert arms_and_seeds(runs) == ([["rnn=a", "width=8"], ["rnn=b", "width=8"]], [4, 7])
    assert continued([4, 7], 4) == [4, 7, 8, 9]
    assert continued([0, 1, 2], 2) == [0, 1]


def test_seeds_beyond_the_budget_are_named() -> None:
    plan = make_plan([variant("rnn=lstm"), variant("rnn=gru")], [0, 1, 5, 9], 2, keys(margin=1.5)).plan
    (line,) = never_trained([0, 1, 5, 9], plan)
    assert line.startswith("seed=5,9: never trained, because the plan has at most 2 seeds per arm; until.seeds=4")
    assert never_trained([0, 1], plan) == []


def test_the_set_of_a_plan_has_the_name_of_its_results(tmp_path: Path) -> None:
    """The config of a manifest has its path."""
    data = ["data=manifest", f"data.root={tmp_path}"]
    arms = [ArmConfigs([f"rnn={name}"], *(compose(*data, f"rnn={name}", f"seed={seed}") for seed in (0, 1)))
            for name in ("lstm", "gru")]  # fmt: skip
    assert make_plan(arms, [0], 8, keys(margin=1.5)).plan.set == "test"


def variant(*overrides: str) -> ArmConfigs:
    configs = [compose("data=an4", "data.root=/somewhere", *overrides, f"seed={seed}") for seed in (0, 1)]
    for seed, cfg in enumerate(configs):
        cfg.overrides = [*overrides, f"seed={seed}"]
    return ArmConfigs(list(overrides), *configs)


def test_a_plan_of_listed_arms_has_their_names() -> None:
    listed = "arms=[{},{name:no norm,norm:none},{rnn:gru,dropout:0}]"
    own = [["arm=full"], ["arm='no norm'", "norm=none"], ["arm='rnn=gru, dropout=0'", "rnn=gru", "dropout=0"]]
    plan = make_plan([variant(listed, *words) for words in own], [0], 8, keys(margin=1.5)).plan
    assert [arm.name for arm in plan.arms] == ["full", "no norm", "rnn=gru, dropout=0"]
    assert plan.listed == {"full": "nothing", "no norm": "norm=none", "rnn=gru, dropout=0": "rnn=gru dropout=0"}
    assert (plan.baseline, plan.contrasts) == ("full", ["no norm", "rnn=gru, dropout=0"])
    with pytest.raises(UsageError, match="the arm no norm differs from full in more keys than the list changes"):
        make_plan([variant(listed, *own[0]), variant(listed, *own[1], "width=8")], [0], 8, keys(margin=1.5))


def test_a_plan_names_its_arms_and_what_belongs_to_seeds() -> None:
    planned = make_plan([variant("rnn=lstm"), variant("rnn=gru")], [0], 8, keys(margin=1.5))
    plan = planned.plan
    assert [(arm.name, arm.levels) for arm in plan.arms] == [
        ("rnn=lstm", {"rnn": "lstm"}),
        ("rnn=gru", {"rnn": "gru"}),
    ]
    assert (plan.baseline, plan.set, plan.metric, plan.margin) == ("rnn=lstm", "test", "wer", 0.015)
    assert (plan.looks, plan.seeds, plan.belongs) == ([3, 5, 8], list(range(8)), ["seed"])
    assert [question.weights for question in planned.questions] == [{"rnn=gru": 1.0, "rnn=lstm": -1.0}]
    assert "seed" not in plan.arms[0].content


def test_arms_that_differ_in_more_than_a_factor_are_refused_before_the_first_run() -> None:
    with pytest.raises(UsageError, match="no factor is declared"):
        make_plan([variant("rnn=lstm", "dropout=0"), variant("rnn=gru", "dropout=0.1")], [0], 8, keys())
    with pytest.raises(UsageError, match="there is only one arm"):
        make_plan([variant("rnn=lstm")], [0], 8, keys())
    with pytest.raises(UsageError, match=r"until\.margin=None: expected the difference that would not matter"):
        make_plan([variant("rnn=lstm"), variant("rnn=gru")], [0], 8, keys(margin=None))


def test_a_frozen_plan_is_read_back_kept_by_launches_and_not_changed_once_runs_are_there(tmp_path: Path) -> None:
    plan = make_plan([variant("rnn=lstm"), variant("rnn=gru")], [0], 8, keys()).plan
    sweep = tmp_path / "sweep"
    assert freeze_plan(sweep, plan) == plan
    wider = replace(plan, margin=0.05)
    assert freeze_plan(sweep, wider) == wider, "nothing has been run, so nothing is known"
    write_manifest(sweep, [], {"started": "monday", "command": ["train.py"], "search": False})
    assert read_plan(sweep) == wider
    write_run(tmp_path, "rnn=lstm", "seed=0")
    assert freeze_plan(sweep, replace(wider, made="later")) == wider
    moved = replace(wider, arms=[replace(arm, overrides=[*arm.overrides, "outputs=/moved"]) for arm in wider.arms])
    assert freeze_plan(sweep, moved) == moved, "where the runs lie, and how many threads they have, is no part of it"
    with pytest.raises(UsageError, match=r"frozen before the first run \(margin: 0\.05 there, 0\.02 now\); force=true"):
        freeze_plan(sweep, plan)
    edit(sweep / "sweep.json", '"margin": 0.05,', "")
    with pytest.raises(UsageError, match="its plan is damaged: it has no margin"):
        read_plan(sweep)


def frozen(outputs: Path, *overrides: str, sweep: str = "mine") -> FrozenArm:
    cfg = compose("data=an4", "data.root=/somewhere", *overrides)
    cfg.overrides, cfg.outputs, cfg.sweep = ["data=an4", *overrides], str(outputs), sweep
    arm = freeze_arm(Run(cfg))
    arm.write()
    return arm


def test_a_finished_run_of_another_sweep_is_taken_over_with_the_place_that_it_has_here(tmp_path: Path) -> None:
    other = write_run(tmp_path, "rnn=gru", "seed=3", sweep="other", ablation={"factor": "dropout"})
    arm = frozen(tmp_path, "rnn=gru", "seed=3", "+ablation.factor=rnn")
    assert take_over(arm) == other.resolve()
    assert arm.folder.resolve() == other.resolve()
    assert not Path(arm.folder.readlink()).is_absolute(), "outputs can be moved"
    (run,) = load([tmp_path / "mine"]).runs
    assert run.config["ablation"] == {"factor": "rnn"}
    assert "rnn=gru" in run.overrides
    assert take_over(arm) is None, "it is there already"


@pytest.mark.parametrize(
    ("overrides", "more"),
    [
        (["rnn=gru", "seed=3"], {"status": "failed"}),
        (["rnn=gru", "seed=4"], {}),
        (["rnn=gru", "seed=3", "width=64"], {}),
        (["rnn=gru", "seed=3"], {"behaviour": 99}),
    ],
)
def test_what_is_unfinished_or_of_another_content_is_not_taken(
    overrides: list[str], more: dict[str, Any], tmp_path: Path
) -> None:
    write_run(tmp_path, *overrides, sweep="other", **more)
    assert take_over(frozen(tmp_path, "rnn=gru", "seed=3")) is None


def test_a_run_that_a_search_proposed_is_not_taken_and_a_link_to_a_deleted_run_goes(tmp_path: Path) -> None:
    run = write_run(tmp_path, "rnn=gru", "seed=3", sweep="search")
    declare(tmp_path / "search", [run], search=True)
    arm = frozen(tmp_path, "rnn=gru", "seed=3")
    assert take_over(arm) is None
    arm.folder.parent.mkdir(exist_ok=True)
    arm.folder.symlink_to("../gone")
    assert take_over(arm) is None
    assert not arm.folder.is_symlink()


def test_each_arm_has_look_seeds_and_state() -> None:
    def standing_of(comparison: Comparison) -> Json:
        assert comparison.course.plan is not None
        return standing(comparison.course.plan, comparison.course)

    ended = standing_of(planned())
    assert {name: (arm["look"], arm["seeds"], arm["state"]) for name, arm in ended["arms"].items()} == {
        "rnn=lstm": (3, 8, "decided"), "rnn=gru": (1, 3, "better"), "rnn=rnn": (3, 8, "equivalent"),
        "rnn=sru": (3, 8, "undecided"), "rnn=fsmn": (1, 3, "worse"),
    }  # fmt: skip
    assert ended["ended"]
    early = standing_of(planned(LOOKS[0]))
    assert (early["look"], early["looks"], early["ended"]) == (1, 3, False)
    assert {name: arm["state"] for name, arm in early["arms"].items()} == {
        "rnn=lstm": "open", "rnn=gru": "better", "rnn=rnn": "open", "rnn=sru": "open", "rnn=fsmn": "worse",
    }  # fmt: skip
    before = standing_of(planned(2))["arms"]  # two seeds of each, where the first look asks for three
    assert {(arm["look"], arm["seeds"], arm["state"]) for arm in before.values()} == {(0, 0, "open")}


def test_the_intervals_are_those_of_the_verdicts(tmp_path: Path) -> None:
    """An interval without ends is null: JSON knows no infinity."""
    ended = planned()
    assert ended.course.plan is not None
    write_json(tmp_path / STANDING, standing(ended.course.plan, ended.course))
    arms = json.loads((tmp_path / STANDING).read_text())["arms"]
    for contrast in ended.course.verdicts:
        question = arms[contrast.arm]["questions"][contrast.arm]
        assert (question["low"], question["high"]) == (contrast.low, contrast.high)
        assert question == arms["rnn=lstm"]["questions"][contrast.arm]
    endless = [replace(contrast, low=-float("inf"), high=float("inf")) for contrast in ended.course.verdicts]
    write_json(tmp_path / STANDING, standing(ended.course.plan, replace(ended.course, verdicts=endless)))
    text = (tmp_path / STANDING).read_text()
    arms = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["arms"]
    assert arms["rnn=gru"]["questions"]["rnn=gru"]["low"] is None
