"""Transcribe some training utterances during training (Baunsgaard2020 §4.4.2, figure 6)."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from torch import nn

from asr_ablations.data.batch import Batch
from asr_ablations.data.dataset import Speech, collate
from asr_ablations.runs.layout import TRANSCRIPTS
from asr_ablations.runs.metrics_files import keep_batches
from asr_ablations.training.contracts import LoggerOfTables
from asr_ablations.training.gradient_accumulation import count_trained_batches
from asr_ablations.training.task import task_of

COLUMNS = ["batches", "id", "reference", "hypothesis"]


class ExampleTranscripts(pl.Callback):
    """Decodes the same `utterances` training utterances after every `every` batches.

    Writes transcripts.csv in `folder`, and the table `transcripts` if a logger shows tables. The utterances are evenly
    spaced over the set, not augmented, and decoded in one pass without dropout by the first rank, which waits for the
    device only then. Training has the same bits without transcripts.
    """

    def __init__(self, folder: Path, every: int, utterances: int) -> None:
        self.path, self.every, self.utterances = folder / TRANSCRIPTS, every, utterances
        self._batch: Batch | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.is_global_zero:
            keep_batches(self.path, count_trained_batches(trainer))

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: object) -> None:
        batches = count_trained_batches(trainer)
        if batches % self.every or not trainer.is_global_zero:
            return
        rows = [[str(batches), *row] for row in self._decoded(trainer, pl_module)]
        new = not self.path.exists()
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([COLUMNS, *rows] if new else rows)
        for logger in trainer.loggers:
            if isinstance(logger, LoggerOfTables):
                logger.log_table("transcripts", COLUMNS, rows, step=trainer.global_step)

    def _decoded(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> list[tuple[str, str, str]]:
        """Return (id, reference, hypothesis) of each utterance."""
        if self._batch is None:
            speech: Speech = trainer.datamodule.sets["train"]  # type: ignore[attr-defined]
            self._batch = evenly_spaced(speech, self.utterances)
        texts = transcribe(trainer, pl_module, self._batch)
        return list(zip(self._batch.ids, self._batch.texts, texts, strict=True))


def transcribe(trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Batch) -> list[str]:
    """Transcribe a batch with the current weights, without dropout."""
    task = task_of(pl_module)
    with evaluation_mode(task), torch.no_grad(), trainer.precision_plugin.forward_context():
        return task.decoder(*task(batch.to(task.device)))


def evenly_spaced(speech: Speech, count: int) -> Batch:
    """Collate `count` utterances of a set, or all if there are fewer. Raise UsageError if one cannot be read."""
    places = np.linspace(0, len(speech) - 1, min(count, len(speech))).round().astype(int).tolist()
    batch = collate([speech[place] for place in places])
    assert isinstance(batch, Batch)
    return batch


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Set a module to evaluation mode within the context; afterwards each part has its previous mode."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True
