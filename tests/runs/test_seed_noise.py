"""The seed noise of a corpus, from the runs of other sweeps."""

import json
from pathlib import Path
from typing import Any

import pytest

from asr_ablations.runs.identity import BEHAVIOUR
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.records import read_run
from asr_ablations.runs.seed_noise import SeedNoise, seed_noise
from asr_ablations.tools.files import write_json
from tests.helpers.run_folders import write_run


def run_with(outputs: Path, wer: float, *overrides: str, data: str = "test-hash", **more: Any) -> Path:
    """A run whose WER on `test` is exactly this, tested on data of this hash."""

    def change(folder: Path) -> None:
        summary = json.loads((folder / "summary.json").read_text())
        summary["sets"]["test"]["wer"] = wer
        write_json(folder / "summary.json", summary)
        content = json.loads((folder / "data.json").read_text())
        content["sets"]["test"]["sha256"] = data
        write_json(folder / "data.json", content)

    return write_run(outputs, *overrides, change=change, **more)


@pytest.fixture
def like(tmp_path: Path) -> RunRecord:
    return read_run(run_with(tmp_path, 0.5, "rnn=rnn", sweep="new"))


def test_deviations_are_pooled_over_the_arms_of_other_sweeps(tmp_path: Path, like: RunRecord) -> None:
    """By hand: squares about the means 0.2 and 0.31 are 0.0002 and 0.0002, over 2 + 1 degrees of freedom."""
    for seed, wer in enumerate((0.19, 0.20, 0.21)):
        run_with(tmp_path, wer, "rnn=lstm", f"seed={seed}", sweep="a")
    for seed, wer in enumerate((0.30, 0.32)):
        run_with(tmp_path, wer, "rnn=gru", f"seed={seed}", sweep="b")
    noise = seed_noise(tmp_path, like, "test", "wer")
    assert noise == SeedNoise(pytest.approx((0.0004 / 3) ** 0.5), runs=5, arms=2, sweeps=2)  # type: ignore[arg-type]


def test_an_arm_goes_on_in_another_sweep_and_the_same_run_counts_once(tmp_path: Path, like: RunRecord) -> None:
    run_with(tmp_path, 0.19, "seed=0", sweep="a")
    run_with(tmp_path, 0.21, "seed=1", sweep="b")
    run_with(tmp_path, 0.21, "seed=1", sweep="c")
    noise = seed_noise(tmp_path, like, "test", "wer")
    assert noise == SeedNoise(pytest.approx(0.0002**0.5), runs=2, arms=1, sweeps=2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other",
    [
        {"data": "other-hash"},
        {"status": "failed"},
        {"status": "pruned"},
        {"behaviour": BEHAVIOUR + 1},
        {"sweep": "new"},
    ],
    ids=str,
)
def test_what_is_not_the_same_is_no_noise(other: dict[str, Any], tmp_path: Path, like: RunRecord) -> None:
    run_with(tmp_path, 0.19, "seed=0", sweep="a")
    run_with(tmp_path, 0.29, "seed=1", **{"sweep": "a", **other})
    run_with(tmp_path, 0.39, "seed=2", "dropout=0.5", sweep="a")
    assert seed_noise(tmp_path, like, "test", "wer") is None


def test_seeds_that_agree_do_not_prove_that_nothing_moves(tmp_path: Path, like: RunRecord) -> None:
    for seed in (0, 1):
        run_with(tmp_path, 0.2, f"seed={seed}", sweep="a")
    noise = seed_noise(tmp_path, like, "test", "wer")
    assert noise is not None
    assert noise.deviation == pytest.approx(1 / like.summary.sets["test"].words / 12**0.5)


def test_damaged_runs_are_passed_over(tmp_path: Path, like: RunRecord) -> None:
    for seed in (0, 1):
        run_with(tmp_path, 0.2 + 0.02 * seed, f"seed={seed}", sweep="a")
    for number, name in enumerate(("summary.json", "config.yaml", "status.json", "data.json")):
        (run_with(tmp_path, 0.9, f"seed={2 + number}", sweep="a") / name).write_text("{")
    noise = seed_noise(tmp_path, like, "test", "wer")
    assert noise is not None
    assert (noise.runs, noise.deviation) == (2, pytest.approx(0.0002**0.5))


def test_without_a_hash_of_the_data_nothing_is_known(tmp_path: Path, like: RunRecord) -> None:
    assert seed_noise(tmp_path, like, "other-set", "wer") is None
    assert seed_noise(tmp_path / "absent", like, "test", "wer") is None
