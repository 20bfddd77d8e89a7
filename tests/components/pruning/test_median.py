"""The median stopping rule: against the paper's formula, and in real runs."""

import json
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig

from asr_ablations.components.pruning.median import MedianStopping, read_curve
from asr_ablations.runs.records import load
from asr_verdicts.errors import UsageError
from asr_verdicts.files import write_csv, write_json
from tests.helpers.run_results import train
from tests.helpers.support import compose, tiny_overrides

KEY = "validation/dev/wer"


def write_curve(folder: Path, rates: list[float], status: str = "done") -> Path:
    folder.mkdir(parents=True)
    rows = [row for epoch, rate in enumerate(rates) for row in ({"epoch": epoch, KEY: rate}, {"epoch": epoch, KEY: ""})]
    write_csv(folder / "metrics.csv", rows)
    write_json(folder / "status.json", {"status": status})
    return folder


def rule(folder: Path, warm_up: int = 1, siblings: int = 3) -> MedianStopping:
    return MedianStopping(folder, KEY, warm_up=warm_up, siblings=siblings)


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Three finished runs; their means after two epochs are 0.8, 0.6 and 0.5, after three 0.7, 0.5 and 0.4."""
    write_curve(tmp_path / "a", [0.9, 0.7, 0.5])
    write_curve(tmp_path / "b", [0.7, 0.5, 0.3])
    write_curve(tmp_path / "c", [0.6, 0.4, 0.2])
    return tmp_path


def test_the_best_so_far_is_held_against_the_median_of_running_means(sweep: Path) -> None:
    """Golovin et al. 2017, section 3.2.2, by hand."""
    for number, (rates, stops) in enumerate((
        ([0.9, 0.61], True),  # best 0.61 is strictly worse than the median 0.6
        ([0.9, 0.6], False), ([0.55, 0.95], False),  # the best so far counts, not the last
        ([0.9, 0.8, 0.51], True), ([0.9, 0.8, 0.49], False),
    )):  # fmt: skip
        own = write_curve(sweep / f"own {number}", rates, status="running")
        assert (rule(own).reason() is not None) == stops


def test_only_finished_runs_that_came_as_far_count_after_the_warm_up(sweep: Path) -> None:
    own = write_curve(sweep / "own", [0.9, 0.9], status="running")
    assert rule(own).reason() is not None
    assert rule(own, siblings=4).reason() is None
    write_curve(sweep / "short", [0.1])
    write_curve(sweep / "failed", [0.1, 0.1], status="failed")
    write_curve(sweep / "pruned", [0.1, 0.1], status="pruned")
    assert rule(own, siblings=4).reason() is None
    write_curve(sweep / "d", [0.1, 0.1])
    assert rule(own, siblings=4).reason() is not None
    assert rule(own, warm_up=3).reason() is None
    assert rule(sweep / "not-begun").reason() is None
    for name in ("warm_up", "siblings"):
        with pytest.raises(UsageError, match=f"pruning.{name}=0: expected a whole number, 1 or more"):
            rule(own, **{name: 0})


def config(corpus: Path, outputs: Path, *overrides: str) -> DictConfig:
    small = ["width=8", "layers=1", "gpus=0", "logger=csv", "max_epochs=4", "sweep=search", "progress=false"]
    return compose(*tiny_overrides(corpus), *small, f"outputs={outputs}", *overrides)


def test_a_run_is_pruned_stays_so_and_goes_on_bit_for_bit_without_pruning(tiny_corpus: Path, tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    for number in range(3):
        write_curve(outputs / "search" / f"sibling-{number}", [0.0] * 4)
    pruning = ["pruning=median", "pruning.warm_up=2"]
    folder = train(config(tiny_corpus, outputs, *pruning))
    status = json.loads((folder / "status.json").read_text())
    assert status["status"] == "pruned"
    assert "worse than 0.0000, the median of the means of 3 finished runs" in status["reason"]
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["epochs"], summary["sets"]) == (2, {}), "the figures so far, and no test set was touched"
    assert summary["best_validation_wer"] == pytest.approx(min(read_curve(folder, KEY)))
    assert len(read_curve(folder, KEY)) == 2
    siblings = [run for run in load([folder.parent]).unfinished if run.folder != folder]
    assert len(siblings) == 3, "they are no whole records"
    assert all("config.yaml is missing" in run.reason for run in siblings)
    for number in range(3):
        (outputs / "search" / f"sibling-{number}" / "status.json").unlink()
    assert [run.reason for run in load([folder.parent]).unfinished] == [f"pruned: {status['reason']}"]

    before = (folder / "metrics.csv").read_bytes()
    assert train(config(tiny_corpus, outputs, *pruning)) == folder
    assert (folder / "metrics.csv").read_bytes() == before, "asked again, it does not creep on epoch by epoch"

    assert train(config(tiny_corpus, outputs)) == folder
    assert json.loads((folder / "status.json").read_text())["status"] == "done"
    undisturbed = train(config(tiny_corpus, tmp_path / "undisturbed"))
    assert undisturbed.name == folder.name
    assert (folder / "losses.csv").read_bytes() == (undisturbed / "losses.csv").read_bytes()
    assert (folder / "utterances.csv").read_bytes() == (undisturbed / "utterances.csv").read_bytes()
    weights = [
        torch.load(f / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"] for f in (folder, undisturbed)
    ]
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
