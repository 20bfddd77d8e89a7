"""The tables metrics.csv and losses.csv: what training logs, kept across interruptions."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.loggers.csv_logs import ExperimentWriter

from asr_ablations.runs.layout import LOSSES, METRICS
from asr_ablations.runs.metrics_files import truncate
from asr_ablations.tools.machine import rank
from asr_ablations.training.contracts import Checkpoint
from asr_ablations.training.task import task_of
from asr_verdicts.files import write_csv


class MetricsTable(CSVLogger):
    """Lightning's CSV logger in the run's folder. It keeps the first `rows` rows of an existing file, those from before
    the checkpoint, and continues after them; Lightning's own logger would delete the file.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        super().__init__(save_dir=str(folder), name="", version="")
        self.rows = 0
        if rank():
            return
        kept = truncate(folder / METRICS, rows)
        self._experiment = _ContinuedWriter(str(folder), sorted(kept[0]) if kept else [])
        self.rows = len(kept)

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
        write_csv(path, rows)  # Lightning rewrites in place: a kill in the middle would lose every row


class StepLosses(pl.Callback):
    """Writes losses.csv: the exact training loss of every batch, where a difference between two runs shows first, and
    the norm of the update's gradient before clipping, nothing where the treatment of the gradient logs none and where
    a batch ends in no update.

    Both stay on their device until an epoch or a checkpoint ends, so that no step waits for them.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOSSES
        self._losses: list[torch.Tensor] = []
        self._norms: list[torch.Tensor | None] = []
        self._first = 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._first = trainer.fit_loop.epoch_loop.total_batch_idx + 1
        if trainer.is_global_zero:
            truncate(self.path, self._first)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        self._losses.append(step_loss(trainer, outputs).detach())
        task = task_of(pl_module)
        self._norms.append(task.gradient_norm)
        task.gradient_norm = None  # a batch that only adds to the gradients has none

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._flush(trainer)

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        self._flush(trainer)  # a run that continues from this checkpoint needs the rows before it

    def _flush(self, trainer: pl.Trainer) -> None:
        losses, self._losses = self._losses, []
        norms, self._norms = self._norms, []
        if not losses or not trainer.is_global_zero:
            return
        values, norm_values = _numbers(losses), _numbers(norms)
        new = not self.path.exists()
        with self.path.open("a", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            if new:
                table.writerow(["batch", "loss", "gradient_norm"])
            pairs = zip(values, norm_values, strict=True)
            table.writerows((self._first + i, value, norm) for i, (value, norm) in enumerate(pairs))
        self._first += len(values)


def _numbers(values: Sequence[torch.Tensor | None]) -> list[str]:
    """The exact numbers as text, fetched from their device at once; "" for None."""
    known = [value.float() for value in values if value is not None]
    numbers = iter(torch.stack(known).cpu().tolist() if known else [])
    return ["" if value is None else repr(next(numbers)) for value in values]


def step_loss(trainer: pl.Trainer, outputs: object) -> torch.Tensor:
    """The loss () of a training batch. Lightning hands its share in the update to callbacks, as their outputs."""
    return cast(dict[str, torch.Tensor], outputs)["loss"] * trainer.accumulate_grad_batches
