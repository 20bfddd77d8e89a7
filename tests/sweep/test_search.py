"""Searches: what is drawn from what, the same runs from the same seed, the best kept, mistakes in one line."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from asr_ablations.sweep.search import Space, sampler, search, space_of
from asr_ablations.tools.errors import UsageError

WIDTHS, LAYERS = (8, 16), (1, 3)
PARAMS = [
    "lr=tag(log,interval(1e-4,1e-2))",
    "width=choice(8,16)",
    "layers=range(1,4,2)",
    "epochs=int(interval(2,5))",
    "dropout=0.1",
]


def space(*params: str) -> Space:
    return space_of(OverridesParser.create().parse_overrides(list(params)))


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


def found(folder: Path, kind: str = "TPESampler", seed: int = 0) -> list[list[dict[str, str]]]:
    runs = Runs(folder)
    search(space(*PARAMS), sampler(kind, seed=seed), runs, trials=7, at_once=2, maximise=False)
    return runs.batches


def test_runs_are_drawn_from_the_space_some_at_a_time(tmp_path: Path) -> None:
    batches = found(tmp_path)
    assert [len(batch) for batch in batches] == [2, 2, 2, 1]
    for run in [run for batch in batches for run in batch]:
        assert 1e-4 <= float(run["lr"]) <= 1e-2
        assert int(run["width"]) in WIDTHS
        assert int(run["layers"]) in LAYERS
        assert 2 <= int(run["epochs"]) <= 5
        assert run["dropout"] == "0.1"


@pytest.mark.parametrize("kind", ["TPESampler", "RandomSampler", "QMCSampler"])
def test_the_same_seed_proposes_the_same_runs(kind: str, tmp_path: Path) -> None:
    """So that the same command skips what is done, and goes on after it."""
    assert found(tmp_path / "1", kind) == found(tmp_path / "2", kind) != found(tmp_path / "3", kind, seed=1)


@pytest.mark.parametrize("maximise", [False, True])
def test_the_best_is_kept_and_said(maximise: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = Runs(tmp_path)
    trials = search(space(*PARAMS), sampler("RandomSampler", seed=0), runs, trials=6, at_once=3, maximise=maximise)
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
        search(space(*PARAMS), sampler("TPESampler", seed=0), launch, trials=4, at_once=2, maximise=False)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (["lr=1"], "a search: nothing to draw; expected intervals or choices"),
        (["lr=interval(1,0.1)"], r"lr=interval\(1,0\.1\): expected bounds in order"),
        (["lr=tag(log,interval(0,1))"], r"expected bounds in order, and above 0 for log"),
        (["layers=range(3,1)"], r"layers=range\(3,1\): expected bounds in order"),
    ],
)
def test_a_space_that_is_none_is_one_line(params: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        space(*params)
    assert "\n" not in str(error.value)


def test_an_unknown_sampler_or_option_is_one_line() -> None:
    with pytest.raises(UsageError, match=r"hydra\.sweeper\.sampler\.kind=x: expected .*TPESampler"):
        sampler("x")
    with pytest.raises(UsageError, match=r"hydra\.sweeper\.sampler: TPESampler: .*'sed'"):
        sampler("TPESampler", sed=1)
    with pytest.raises(UsageError, match=r"hydra\.sweeper\.n_trials=0: expected a whole number"):
        search(space(*PARAMS), sampler("TPESampler"), lambda *_: [], trials=0, at_once=1, maximise=False)
