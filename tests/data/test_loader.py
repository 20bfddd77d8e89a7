"""Reading processes: the same batches whatever their number, and a one-line error for what fails in one of them."""

import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import get_worker_info

from asr_ablations.config.build import build
from asr_ablations.data.batch import Batch
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.data.utterance import Utterance
from asr_ablations.tools.errors import UsageError
from asr_ablations.training.assembly import assemble, trainer
from tests.helpers.support import LIGHTNING_WARNINGS, compose, tiny_overrides

pytestmark = [pytest.mark.filterwarnings(line) for line in LIGHTNING_WARNINGS]


def assembled(root: Path, *overrides: str) -> SpeechData:
    cfg = compose("width=8", "layers=1", "gpus=0", *tiny_overrides(root), "batch.size=2", *overrides)
    _, data = assemble(cfg, build(cfg.data))
    data.setup()
    return data


def epochs(data: SpeechData, begin: tuple[int, int] = (0, 0), last: int = 1) -> list[Batch]:
    data.load_state_dict({"epoch": begin[0], "batches": begin[1]})
    loader = data.train_dataloader()
    batches = []
    for epoch in range(begin[0], last + 1):
        loader.batch_sampler.set_epoch(epoch)
        batches += list(loader)
    return batches


def same(batches: Sequence[Batch], expected: Sequence[Batch]) -> bool:
    return [b.ids for b in batches] == [b.ids for b in expected] and all(
        torch.equal(getattr(a, name), getattr(b, name))
        for a, b in zip(batches, expected, strict=True)
        for name in ("audio", "lengths", "targets", "target_lengths")
    )


@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes")  # more than cores here
@pytest.mark.parametrize("augment", ["none", "speed"])
def test_the_number_of_workers_changes_no_bit_and_resuming_none_either(tiny_corpus: Path, augment: str) -> None:
    expected = epochs(assembled(tiny_corpus, f"augment={augment}"))
    for workers in (1, 4):
        assert same(epochs(assembled(tiny_corpus, f"augment={augment}", f"workers={workers}")), expected)
    for workers in (0, 1):
        resumed = epochs(assembled(tiny_corpus, f"augment={augment}", f"workers={workers}"), begin=(0, 3))
        assert same(resumed, expected[3:])
    assert not same(expected[:5], expected[5:])


class Inspecting:
    """A store that returns the settings of the reading process instead of samples."""

    def read(self, utterance: Utterance) -> tuple[np.ndarray, int]:
        return np.array([torch.get_num_threads(), get_worker_info() is not None, os.getpid() % 30000], np.int16), 3


def test_a_worker_has_one_thread_and_lives_on(tiny_corpus: Path) -> None:
    data = assembled(tiny_corpus, "workers=2")
    data.sets["train"].store = Inspecting()
    loader = data.train_dataloader()
    readings = [np.concatenate([b.audio.numpy().reshape(-1, 3) for b in loader]) for _ in range(2)]
    assert (readings[0][:, :2] == 1).all()
    assert set(readings[0][:, 2]) == set(readings[1][:, 2])
    assert len(set(readings[0][:, 2])) == 2


class Failing:
    """A store that cannot read one utterance, or whose process dies over it."""

    def __init__(self, store: Any, id_: str, dies: bool) -> None:
        self.store, self.id, self.dies = store, id_, dies

    def read(self, utterance: Utterance) -> tuple[np.ndarray, int]:
        if utterance.id != self.id:
            return self.store.read(utterance)
        if self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        raise UsageError(f"cannot read audio {utterance.audio}: damaged")


@pytest.mark.parametrize(("workers", "dies"), [(0, False), (2, False), (2, True)])
def test_the_utterance_that_ends_a_run_is_named(tiny_corpus: Path, workers: int, dies: bool) -> None:
    cfg = compose("width=8", "layers=1", "gpus=0", "max_epochs=1", *tiny_overrides(tiny_corpus), f"workers={workers}")
    task, data = assemble(cfg, build(cfg.data))
    data.setup()
    train = data.sets["train"]
    train.store = Failing(train.store, "11-1-0002", dies)
    with pytest.raises(UsageError) as error:
        trainer(cfg, 0, [], []).fit(task, data)
    line = str(error.value)
    assert "utterance 11-1-0002" in line
    assert "11-1-0002.flac" in line
    assert "\n" not in line
    assert len(line) < 250
    assert not dies or line.startswith("a process that reads audio ")


class Late(pl.Callback):
    """Kills a worker while a batch is trained on: torch notices it at once."""

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Batch, batch_idx: int) -> None:
        watch = trainer.datamodule.sets["train"].reading
        os.kill(int(watch[0, 0]), signal.SIGKILL)
        time.sleep(600)  # ends early: torch's handler of SIGCHLD raises


def test_a_worker_that_dies_between_batches_is_reported_too(tiny_corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # torch sets its handler once a process, and whoever has set another since has taken it away
    monkeypatch.setattr("torch.utils.data._utils.signal_handling._SIGCHLD_handler_set", False)
    cfg = compose("width=8", "layers=1", "gpus=0", "max_epochs=1", *tiny_overrides(tiny_corpus), "workers=1")
    task, data = assemble(cfg, build(cfg.data))
    with pytest.raises(RuntimeError) as error:
        trainer(cfg, 0, [], [Late()]).fit(task, data)
    explained = data.explain(error.value)
    assert isinstance(explained, UsageError)
    assert re.match(r"a process that reads audio died; it was at utterance 1\d-1-000\d \(.*flac\)$", str(explained))
