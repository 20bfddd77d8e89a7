"""A whole run in this process: what it leaves in its folder."""

import csv
import json
from pathlib import Path

import pytest
import torch

from asr_ablations.experiment.run import run
from tests.helpers.support import compose, tiny_overrides

EPOCHS = 3


@pytest.fixture(scope="module")
def folder(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose WER stays at the 100 % of its first epoch: its learning rate is almost zero."""
    outputs = tmp_path_factory.mktemp("outputs")
    small = ["width=8", "layers=1", "gpus=0", "logger=csv", f"outputs={outputs}", "optimizer.lr=1e-9"]
    return run(compose(*tiny_overrides(tiny_corpus), *small, f"max_epochs={EPOCHS}"))


def test_the_last_checkpoint_is_of_the_last_epoch(folder: Path) -> None:
    """Although no epoch was better than the first: an interrupted run continues from where it was."""
    last = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    assert last["position"] == {"epoch": EPOCHS, "batches": 0}
    assert last["global_step"] == json.loads((folder / "summary.json").read_text())["steps"]


def test_the_best_checkpoint_is_the_first_of_the_lowest_error_rate(folder: Path) -> None:
    with (folder / "metrics.csv").open() as file:
        rates = [float(row["validation/dev/wer"]) for row in csv.DictReader(file) if row["validation/dev/wer"]]
    best = torch.load(folder / "checkpoints" / "best.ckpt", weights_only=True)
    assert best["epoch"] == rates.index(min(rates))


def test_every_utterance_of_every_set_is_scored_once(folder: Path) -> None:
    with (folder / "utterances.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted((row["set"], row["id"]) for row in rows) == [
        *(("dev", f"{speaker}-1-{number:04d}") for speaker in (20, 21) for number in range(3)),
        *(("test", f"30-1-{number:04d}") for number in range(2)),
    ]
    assert all(int(row["words"]) == len(row["reference"].split()) for row in rows)


def test_the_summary_counts_what_the_rows_hold(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    with (folder / "utterances.csv").open() as file:
        rows = list(csv.DictReader(file))
    for name, final in summary["sets"].items():
        own = [row for row in rows if row["set"] == name]
        errors = sum(int(row[kind]) for row in own for kind in ("substitutions", "deletions", "insertions"))
        assert final["wer"] == pytest.approx(errors / sum(int(row["words"]) for row in own))
    assert summary["epochs"] == EPOCHS


def test_the_final_loss_is_that_of_the_last_validation(folder: Path) -> None:
    """Both are of the last weights."""
    final = json.loads((folder / "summary.json").read_text())["sets"]
    with (folder / "metrics.csv").open() as file:
        losses = [float(row["validation/dev/loss"]) for row in csv.DictReader(file) if row["validation/dev/loss"]]
    assert final["dev"]["loss"] == pytest.approx(losses[-1], rel=1e-5)
    assert final["test"]["loss"] > 0


def test_the_norm_of_each_steps_gradient_is_recorded(folder: Path) -> None:
    """Lightning's mean over an epoch is that of the epoch's steps, three of them; so is the loss beside it."""
    with (folder / "losses.csv").open() as file:
        steps = list(csv.DictReader(file))
    with (folder / "metrics.csv").open() as file:
        epochs = [float(row["train/gradient_norm"]) for row in csv.DictReader(file) if row["train/gradient_norm"]]
    norms = [float(row["gradient_norm"]) for row in steps]
    assert [sum(norms[at : at + 3]) / 3 for at in range(0, len(norms), 3)] == pytest.approx(epochs, rel=1e-5)
    assert len(set(norms)) == len(norms) == 3 * EPOCHS


def test_seconds_of_the_epochs_add_up_to_those_of_all_training_batches(folder: Path) -> None:
    with (folder / "metrics.csv").open() as file:
        seconds = [float(row["train/epoch_seconds"]) for row in csv.DictReader(file) if row["train/epoch_seconds"]]
    assert len(seconds) == EPOCHS
    assert sum(seconds) == pytest.approx(json.loads((folder / "summary.json").read_text())["train_batch_seconds"])


def test_a_run_on_the_cpu_never_opens_cuda(tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with a GPU, which is someone else's: whatever asks CUDA for more than how many there are fails."""

    def opened(*_: object) -> None:
        raise AssertionError("CUDA was opened")

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch._C._cuda_init", opened)
    monkeypatch.setattr(
        "torch.cuda.is_current_stream_capturing", lambda: False
    )  # which opens nothing, but has no driver
    with pytest.raises(AssertionError, match="opened"):
        torch.cuda.get_rng_state()
    small = ["width=8", "layers=1", "gpus=0", "logger=csv", f"outputs={tmp_path}", "max_epochs=1"]
    made = run(compose(*tiny_overrides(tiny_corpus), *small))
    assert "cuda" not in torch.load(made / "checkpoints" / "last.ckpt", weights_only=True)["ranks"][0]["random"]
