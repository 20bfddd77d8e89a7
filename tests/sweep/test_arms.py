"""The arms of a sweep: listed, searched for, checked before the first one starts, and ended by a verdict."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from asr_ablations.components.until.verdict import UntilVerdict
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import STANDING
from asr_ablations.runs.listed_arms import check_arm, merged, name_in, read_arms
from asr_ablations.runs.records import load
from asr_ablations.runs.sweep_history import read_plan
from asr_ablations.sweep.arm import FrozenArm, freeze_arm, list_arms
from asr_ablations.sweep.live import label_arms
from asr_ablations.sweep.manifest import freeze_plan, write_manifest
from asr_ablations.sweep.preflight import check_arms, check_declarations
from asr_ablations.sweep.search import Space, build_sampler, build_space, search
from asr_ablations.sweep.until.ablation import arms_and_seeds, standing, take_over
from asr_ablations.sweep.until.planning import ArmConfigs, continued, make_plan, never_trained
from asr_verdicts.comparison import Comparison
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json, write_json
from tests.helpers.planned import LOOKS, planned
from tests.helpers.run_folders import declare, edit, write_run
from tests.helpers.support import compose, tiny_overrides

CLASSIC: list[Any] = [{}, {"norm": "none"}, {"name": "wide GRU", "rnn": "gru", "width": 256}]


def runs_of(arms: str, *batch: list[str]) -> list[list[str]]:
    return list_arms([[f"arms={arms}", *words] for words in batch], lambda words: compose(*words, "overrides=[]"))


def test_every_combination_meets_every_arm_and_an_arm_has_the_last_word() -> None:
    arms = "[{},{dropout:0},{name:small GRU,rnn:gru,batch:{size:4}}]"
    batch = [["dropout=0.2", "seed=0"], ["dropout=0.2", "seed=1"]]
    listed = f"arms={arms}"
    assert runs_of(arms, *batch) == [
        words
        for seed in ("seed=0", "seed=1")
        for words in (
            [listed, "dropout=0.2", seed, "arm=full"],
            [listed, seed, "arm='dropout=0'", "dropout=0"],
            [listed, "dropout=0.2", seed, "arm='small GRU'", "rnn=gru", "batch.size=4"],
        )
    ]


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ("[{},{nrom:none}]", "^arm nrom=none: nrom: there is no such key; nearest: norm$"),
        ("[{},{rnn:gru},{name:again,rnn:gru}]", "rnn=gru and again make the same changes"),
        ("[{name:a,rnn:gru},{name:a,rnn:rnn}]", "two arms are called a"),
        ("[{},{seed:1}]", r"seed: an arm cannot change this key; expected it in hydra\.sweeper\.params"),
        ("[{},rnn]", "arms: rnn: expected the keys that the arm changes"),
        ("[{}]", "two or more arms"),
        ("[{},{width:'${layers}'}]", "instead of a reference to another key"),
    ],
)
def test_what_is_no_list_of_arms_is_one_line(arms: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        runs_of(arms, ["seed=0"])
    with pytest.raises(UsageError, match="norm is also varied outside the list"):
        runs_of("[{},{norm:layer}]", ["norm=batch"], ["norm=none"])


def test_values_are_typed_as_hydra_reads_them() -> None:
    """What is read back is what was listed: texts that look like something else among them."""
    values = [None, True, 0.5, 3, "null", "a b", "it's", "1e-3", "a/b.c", [1, "x, y"], []]
    for value in values:
        (_, arm) = read_arms([{}, {"data.root": value}])
        word = arm.overrides[1]
        assert compose("data=an4", word, "overrides=[]").data.root == value


def test_arms_are_named_by_what_they_change() -> None:
    assert [arm.name for arm in read_arms(CLASSIC)] == ["full", "norm=none", "wide GRU"]
    for name in ("it's \\ this", r"\input{x}", r"\'", "\\\\", r"a\\'b", r"x\\y", "=1+1"):
        overrides = read_arms([{}, {"name": name, "width": 8}])[1].overrides
        assert name_in(overrides) == name
        assert OverridesParser.create().parse_override(overrides[0]).value() == name
    words = [[*arm.overrides, f"seed={seed}", "precision=16"] for seed in (0, 1) for arm in read_arms(CLASSIC)]
    named = label_arms(words)
    assert named[:3] == ["full seed=0", "norm=none seed=0", "wide GRU seed=0"]


def test_a_list_may_grow_and_not_change() -> None:
    assert [arm.name for arm in merged([CLASSIC[:2], CLASSIC])] == ["full", "norm=none", "wide GRU"]
    with pytest.raises(UsageError, match="wide GRU means different changes in these runs: rnn=gru width=256 and"):
        merged([CLASSIC, [{}, {"name": "wide GRU", "width": 256}]])


def test_a_run_beside_a_list_is_one_of_its_arms() -> None:
    check_arm({"arms": None})
    check_arm({"arms": CLASSIC, "arm": "full"})
    for arm in (None, "small"):
        with pytest.raises(UsageError, match=r"a list of arms \(full, norm=none, wide GRU\) needs -m"):
            check_arm({"arms": CLASSIC, "arm": arm})


@pytest.mark.parametrize(
    ("ablation", "message"),
    [
        ({"metric": "ser"}, "metric=ser: expected wer or cer or cer_longer or loss"),
        ({"baseline": {"rnn": "lstm"}}, "ablation.baseline=.*expected a string"),
        ({"factor": "rnnn"}, "ablation.factor=rnnn: there is no such key; nearest: rnn"),
        ({"targets": [20]}, "ablation.targets=20: expected rates as fractions: 0.2 is 20 %"),
        ({"set": "test-claen"}, "ablation.set=test-claen: expected test-clean, dev-clean, dev-other"),
        ({"failed": "divergd"}, "ablation.failed=divergd: expected diverged"),
    ],
)
def test_a_question_that_compare_would_not_understand_is_refused(ablation: Any, message: str) -> None:
    cfg = compose("data=librispeech", "data.test=test-clean")
    cfg.overrides, cfg.ablation = ["rnn=lstm"], ablation
    with pytest.raises(UsageError, match=message):
        check_declarations([cfg])


def test_a_first_arm_that_is_too_large_to_build_leaves_the_sweep_its_data(tiny_corpus: Path) -> None:
    """It fails when it runs, under its own name; the arms after it are checked and trained."""
    configs = [compose(*tiny_overrides(tiny_corpus), f"width={width}", "layers=2") for width in (65_536, 8)]
    (large,) = check_arms([configs[0]])
    assert large
    assert [large] == check_arms([configs[1]])


def test_a_wrong_value_in_the_last_arm_stops_the_sweep_before_it_starts(tiny_corpus: Path) -> None:
    kernels = [f"model.convolutions.0.kernel=[{size},{size}]" for size in (3, 2)]
    with pytest.raises(UsageError, match=r"expected odd sizes"):
        check_arms([compose(*tiny_overrides(tiny_corpus), kernel) for kernel in kernels])


PARAMS = [
    "lr=tag(log,interval(1e-4,1e-2))", "width=choice(8,16)", "layers=range(1,4,2)", "epochs=int(interval(2,5))",
    "dropout=0.1",
]  # fmt: skip


def space(*params: str) -> Space:
    return build_space(OverridesParser.create().parse_overrides(list(params)))


class Runs:
    """Runs whose figure is the distance of the learning rate from 1e-3; a batch of each call is kept."""

    def __init__(self, folder: Path) -> None:
        self.cfg = OmegaConf.create({"outputs": str(folder), "sweep": "s"})
        self.batches: list[list[dict[str, str]]] = []
        (folder / "s").mkdir(parents=True, exist_ok=True)

    def __call__(self, overrides: Sequence[Sequence[str]], number: int) -> list[JobReturn]:
        assert number == sum(map(len, self.batches))
        self.batches.append([dict(word.split("=") for word in words) for words in overrides])
        values = [abs(float(run["lr"]) - 1e-3) for run in self.batches[-1]]
        return [JobReturn(cfg=self.cfg, status=JobStatus.COMPLETED, _return_value=value) for value in values]


def test_runs_are_drawn_from_the_space_some_at_a_time(tmp_path: Path) -> None:
    def found(name: str, seed: int = 0) -> list[list[dict[str, str]]]:
        runs = Runs(tmp_path / name)
        search(space(*PARAMS), build_sampler("TPESampler", seed=seed), runs, trials=7, at_once=2, maximise=False)
        return runs.batches

    batches = found("1")
    assert [len(batch) for batch in batches] == [2, 2, 2, 1]
    for run in [run for batch in batches for run in batch]:
        assert 1e-4 <= float(run["lr"]) <= 1e-2
        assert int(run["width"]) in (8, 16)
        assert int(run["layers"]) in (1, 3)
        assert 2 <= int(run["epochs"]) <= 5
        assert run["dropout"] == "0.1"
    assert batches == found("2") != found("3", seed=1), "the same command skips what is done, and goes on after it"


@pytest.mark.parametrize("maximise", [False, True])
def test_the_best_is_kept_and_said(maximise: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = Runs(tmp_path)
    trials = search(
        space(*PARAMS), build_sampler("RandomSampler", seed=0), runs, trials=6, at_once=3, maximise=maximise
    )
    kept = yaml.safe_load((tmp_path / "s" / "best.yaml").read_text())
    distances = [abs(float(run["lr"]) - 1e-3) for batch in runs.batches for run in batch]
    best = (max if maximise else min)(distances)
    assert (kept["trials"], kept["best_value"]) == (len(trials), best)
    assert distances[kept["best_trial"] - 1] == best
    assert abs(kept["best_params"]["lr"] - 1e-3) == best
    assert f"run 6 of 6 of the search; best so far: run {kept['best_trial']}" in capsys.readouterr().out


def test_a_run_without_a_result_ends_the_search(tmp_path: Path) -> None:
    """The next proposals depend on it: the same command runs it again."""

    def launch(overrides: Sequence[Sequence[str]], number: int) -> list[JobReturn]:
        return [JobReturn(status=JobStatus.FAILED, _return_value=ValueError("arm 1 failed")) for _ in overrides]

    with pytest.raises(ValueError, match="arm 1 failed"):
        search(space(*PARAMS), build_sampler("TPESampler", seed=0), launch, trials=4, at_once=2, maximise=False)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (["lr=1"], "a search: nothing to draw; expected intervals or choices"),
        (["lr=interval(1,0.1)"], r"lr=interval\(1,0\.1\): expected bounds in order"),
        (["lr=tag(log,interval(0,1))"], r"expected bounds in order, and above 0 for log"),
    ],
)
def test_a_space_that_is_none_is_one_line(params: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        space(*params)
    assert "\n" not in str(error.value)


def test_an_unknown_sampler_or_option_is_one_line() -> None:
    with pytest.raises(UsageError, match=r"hydra\.sweeper\.sampler\.kind=x: expected .*TPESampler"):
        build_sampler("x")
    with pytest.raises(UsageError, match=r"hydra\.sweeper\.sampler: TPESampler: .*'sed'"):
        build_sampler("TPESampler", sed=1)
    with pytest.raises(UsageError, match=r"hydra\.sweeper\.n_trials=0: expected a whole number"):
        search(space(*PARAMS), build_sampler("TPESampler"), lambda *_: [], trials=0, at_once=1, maximise=False)


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
