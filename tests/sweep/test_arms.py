"""The arms of a sweep: listed, searched for, and checked before the first one starts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from asr_ablations.runs.listed_arms import check_arm, merged, name_in, read_arms
from asr_ablations.sweep.arm import list_arms
from asr_ablations.sweep.live import label_arms
from asr_ablations.sweep.preflight import check_arms, check_declarations
from asr_ablations.sweep.search import Space, build_sampler, build_space, search
from asr_verdicts.errors import UsageError
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
