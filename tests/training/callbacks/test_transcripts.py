"""Transcripts of training utterances while training goes on: they are the model's own, and change nothing."""

import csv
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from asr_ablations.experiment import fit as fitting
from asr_ablations.experiment.run import run
from asr_ablations.tools.errors import Stopped
from asr_ablations.training.callbacks.transcripts import evaluation_mode, evenly_spaced
from asr_ablations.training.trained_model import load_run
from tests.helpers.run_results import SignalAt, results, same, with_callbacks
from tests.helpers.support import compose, tiny_overrides

EPOCHS, BATCHES = 2, 3


def config(corpus: Path, outputs: Path, *more: str) -> Any:
    small = ["width=8", "layers=1", "gpus=0", "logger=csv", "augment=specaugment", "optimizer.lr=0.01", "sweep=s"]
    return compose(*tiny_overrides(corpus), *small, f"outputs={outputs}", f"max_epochs={EPOCHS}", *more)


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "transcripts.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def folder(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(config(tiny_corpus, tmp_path_factory.mktemp("with"), "transcripts.every=2", "transcripts.utterances=3"))


def test_the_same_utterances_are_decoded_after_every_second_batch(folder: Path) -> None:
    """Three of ten, evenly spaced, of both speakers; their texts stand in the corpus of tones (conftest.SENTENCES)."""
    listed = [(row["batches"], row["id"], row["reference"]) for row in rows(folder)]
    three = [("10-1-0000", "a cab"), ("10-1-0004", "dad had a cab"), ("11-1-0004", "bad dad")]
    assert listed == [(str(batches), *one) for batches in (2, 4, 6) for one in three]


def test_the_last_ones_are_of_the_last_weights(folder: Path) -> None:
    """After the last batch of all: as the checkpoint transcribes them, without dropout and augmentation."""
    trained = load_run(folder)
    trained.data.read("train")
    with torch.no_grad():
        texts = trained.task.decoder(*trained.task(evenly_spaced(trained.data.sets["train"], 3)))
    assert [row["hypothesis"] for row in rows(folder)[-3:]] == texts


def test_a_run_with_them_trains_to_the_same_bits(folder: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    without = run(config(tiny_corpus, tmp_path))
    assert without.name == folder.name
    assert not (without / "transcripts.csv").exists()
    one, other = results(without), results(folder)
    assert [key for key in one if not same(one[key], other[key])] == []


def test_a_resumed_run_repeats_none_of_them(
    folder: Path, tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after the fourth batch, whose rows are written before its checkpoint; one batch was lost with the file
    of the checkpoint, so that the fourth is trained on again.
    """
    cfg = config(tiny_corpus, tmp_path, "transcripts.every=2", "transcripts.utterances=3")
    with monkeypatch.context() as patched:
        usual = fitting.trainer
        disturbed = with_callbacks(usual, SignalAt(1, 0, signal.SIGTERM))
        patched.setattr(fitting, "trainer", disturbed)
        with pytest.raises(Stopped):
            run(cfg)
    (stopped,) = (path.parent for path in tmp_path.rglob("status.json"))
    with (stopped / "transcripts.csv").open("a") as file:
        file.write("6,10-1-0000,a cab,of a step that the checkpoint has not seen\n")
    assert rows(run(cfg)) == rows(folder)


def test_parts_that_were_in_evaluation_mode_stay_there() -> None:
    layers = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Dropout())
    layers[1].eval()
    with evaluation_mode(layers):
        assert not any(part.training for part in layers.modules())
    assert [part.training for part in layers.modules()] == [True, True, False]
