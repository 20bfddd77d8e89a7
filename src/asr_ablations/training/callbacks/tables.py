"""Write metrics.csv, losses.csv and transcripts.csv during training. A resumed run appends to these tables."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.loggers.csv_logs import ExperimentWriter
from torch import nn

from asr_ablations.data.batch import Batch
from asr_ablations.data.datamodule import Speech, collate
from asr_ablations.runs.layout import LOSSES, METRICS, TRANSCRIPTS
from asr_ablations.runs.metrics_files import keep_batches, truncate
from asr_ablations.runs.status import Diverged
from asr_ablations.tools.machine import rank
from asr_ablations.training.contracts import Checkpoint, LoggerOfTables
from asr_ablations.training.ddp import gather_from_ranks
from asr_ablations.training.task import count_trained_batches, task_of
from asr_verdicts.files import write_csv


class MetricsTable(CSVLogger):
    """Variant of Lightning's CSV logger that keeps the first `rows` rows of an existing metrics.csv."""

    def __init__(self, folder: Path, rows: int) -> None:
        super().__init__(save_dir=str(folder), name="", version="")
        self.rows = 0
        if rank():
            return
        old_rows = truncate(folder / METRICS, rows)
        self._experiment = _ContinuedWriter(str(folder), sorted(old_rows[0]) if old_rows else [])
        self.rows = len(old_rows)

    def log_metrics(self, metrics: Mapping[str, torch.Tensor | float], step: int | None = None) -> None:
        super().log_metrics(dict(metrics), step)
        self.rows += 1


class _ContinuedWriter(ExperimentWriter):
    def __init__(self, folder: str, keys: list[str]) -> None:
        super().__init__(folder)
        self.metrics_keys = keys

    def _check_log_dir_exists(self) -> None:
        pass

    def _rewrite_with_new_header(self, fieldnames: list[str]) -> None:
        path = Path(self.metrics_file_path)
        with path.open(newline="", encoding="utf-8") as file:
            rows = [{key: row.get(key, "") for key in fieldnames} for row in csv.DictReader(file)]
        write_csv(path, rows)  # Lightning would rewrite the file in place, and a killed run could lose every row


class StepLosses(pl.Callback):
    """Writes losses.csv with the exact training loss of every batch, which shows where two runs first differ.

    The table also contains the gradient norm before clipping, if it is logged. Losses stay on the device until an epoch
    ends or a checkpoint is written, so no step waits for them. All ranks then raise Diverged if the loss of a step or
    the mean loss of the epoch is not finite. A checkpoint therefore never contains the weights of a diverged run.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOSSES
        self._losses: list[torch.Tensor] = []
        self._norms: list[torch.Tensor | None] = []
        self._first = 0  # index of the batch whose loss is first in the list

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._first = count_trained_batches(trainer)
        if trainer.is_global_zero:
            truncate(self.path, self._first)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, *_: object
    ) -> None:
        self._losses.append(step_loss(trainer, outputs).detach())
        task = task_of(pl_module)
        self._norms.append(task.gradient_norm)
        task.gradient_norm = None  # a batch that only accumulates gradients has no norm

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._flush(trainer, float(trainer.callback_metrics["train/loss"]))

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        self._flush(trainer)  # a run resumed from this checkpoint needs the rows of all earlier batches

    def _flush(self, trainer: pl.Trainer, mean: float = 0.0) -> None:
        losses, norms = _fetch(self._losses), iter(_fetch([norm for norm in self._norms if norm is not None]))
        if losses and trainer.is_global_zero:
            texts = ["" if norm is None else repr(next(norms)) for norm in self._norms]
            rows = [*zip(range(self._first, self._first + len(losses)), map(repr, losses), texts, strict=True)]
            _append(self.path, ["batch", "loss", "gradient_norm"], rows)
        ends = [(self._first + index + 1, loss) for index, loss in enumerate(losses) if not math.isfinite(loss)]
        if not math.isfinite(mean):  # the mean may be infinite because the sum of finite losses has overflowed
            ends.append((self._first + len(losses), mean))
        self._first, self._losses, self._norms = self._first + len(losses), [], []
        # all ranks end together, because a rank that continued would wait for the missing ones
        if ends := [each for ends_of_rank in gather_from_ranks(ends[:1]) for each in ends_of_rank]:
            step, loss = min(ends, key=lambda each: each[0])
            raise Diverged(step, f"diverged at step {step}: the loss is {loss}")


def _fetch(values: list[torch.Tensor]) -> list[float]:
    """Return the values of scalar tensors, all copied from the device at once."""
    return torch.stack([value.float() for value in values]).cpu().tolist() if values else []


def _append(path: Path, columns: list[str], rows: Sequence[Sequence[object]]) -> None:
    """Append rows to a CSV file. If the file is new, write the column names first."""
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows] if new else rows)


def step_loss(trainer: pl.Trainer, outputs: object) -> torch.Tensor:
    """Return the loss () of a training batch. Lightning has divided the loss in `outputs` by batch.accumulate."""
    return cast(dict[str, torch.Tensor], outputs)["loss"] * trainer.accumulate_grad_batches


COLUMNS = ["batches", "id", "reference", "hypothesis"]


class ExampleTranscripts(pl.Callback):
    """Transcribes the same training utterances every `every` batches (Baunsgaard2020 §4.4.2, figure 6).

    Writes transcripts.csv in `folder`, and the table `transcripts` if a logger shows tables. `utterances` utterances
    are chosen at even intervals from the training set. The first rank decodes them in one pass, without augmentation
    or dropout, and waits for the device only then. Training yields bit for bit the same weights as without this
    callback.
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
        if self._batch is None:
            speech: Speech = trainer.datamodule.sets["train"]  # type: ignore[attr-defined]
            self._batch = evenly_spaced(speech, self.utterances)
        texts = transcribe(trainer, pl_module, self._batch)
        rows = [[str(batches), *row] for row in zip(self._batch.ids, self._batch.texts, texts, strict=True)]
        _append(self.path, COLUMNS, rows)
        for logger in trainer.loggers:
            if isinstance(logger, LoggerOfTables):
                logger.log_table("transcripts", COLUMNS, rows, step=trainer.global_step)


def transcribe(trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Batch) -> list[str]:
    """Transcribe a batch with the current weights, without dropout."""
    task = task_of(pl_module)
    with evaluation_mode(task), torch.no_grad(), trainer.precision_plugin.forward_context():
        return task.decoder(*task(batch.to(task.device)))


def evenly_spaced(speech: Speech, count: int) -> Batch:
    """Return a batch of `count` evenly spaced utterances (or all, if fewer). Raise UsageError if one cannot be read."""
    places = np.linspace(0, len(speech) - 1, min(count, len(speech))).round().astype(int).tolist()
    batch = collate([speech[place] for place in places])
    assert isinstance(batch, Batch)
    return batch


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode within the context. Then restore the previous mode of each submodule."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True
