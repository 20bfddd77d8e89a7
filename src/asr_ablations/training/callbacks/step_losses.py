"""Record the loss of every training batch in losses.csv, and end a run whose loss is not finite."""

import csv
import math
from pathlib import Path
from typing import cast

import pytorch_lightning as pl
import torch

from asr_ablations.runs.layout import LOSSES
from asr_ablations.runs.metrics_files import truncate
from asr_ablations.runs.status import Diverged
from asr_ablations.training.contracts import Checkpoint
from asr_ablations.training.ddp import gather_from_ranks
from asr_ablations.training.task import task_of


class StepLosses(pl.Callback):
    """Writes losses.csv: the exact training loss of every batch, where differences between runs show first.

    It also holds the norm of the update's gradient before clipping, if logged. Raises Diverged, in all ranks at once,
    if the loss of a step or the mean of an epoch is not finite: at the end of an epoch, and before a checkpoint would
    hold such weights. Losses stay on their device until then, so that no step waits for them.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOSSES
        self._losses: list[torch.Tensor] = []
        self._norms: list[torch.Tensor | None] = []
        self._first = 0  # first batch in the lists

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
        task.gradient_norm = None  # a batch that only accumulates gradients has no norm

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._flush(trainer, float(trainer.callback_metrics["train/loss"]))

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        self._flush(trainer)  # a run resumed from this checkpoint needs the rows before it

    def _flush(self, trainer: pl.Trainer, mean: float = 0.0) -> None:
        losses, norms = _fetch(self._losses), iter(_fetch([norm for norm in self._norms if norm is not None]))
        if losses and trainer.is_global_zero:
            new = not self.path.exists()
            with self.path.open("a", newline="", encoding="utf-8") as file:
                table = csv.writer(file)
                table.writerows([["batch", "loss", "gradient_norm"]] if new else [])
                for batch, (loss, norm) in enumerate(zip(losses, self._norms, strict=True), start=self._first):
                    table.writerow([batch, repr(loss), "" if norm is None else repr(next(norms))])
        ends = [(self._first + index + 1, loss) for index, loss in enumerate(losses) if not math.isfinite(loss)]
        if not math.isfinite(mean):  # perhaps the sum of finite losses is too large for their type
            ends.append((self._first + len(losses), mean))
        self._first, self._losses, self._norms = self._first + len(losses), [], []
        # if a rank ended alone, the others would wait for it
        if ends := [each for ends_of_rank in gather_from_ranks(ends[:1]) for each in ends_of_rank]:
            step, loss = min(ends, key=lambda each: each[0])
            raise Diverged(step, f"diverged at step {step}: the loss is {loss}")


def _fetch(values: list[torch.Tensor]) -> list[float]:
    """Fetch exact numbers from their device, all at once."""
    return torch.stack([value.float() for value in values]).cpu().tolist() if values else []


def step_loss(trainer: pl.Trainer, outputs: object) -> torch.Tensor:
    """Return the loss () of a training batch. Lightning gives callbacks its share of the update, as `outputs`."""
    return cast(dict[str, torch.Tensor], outputs)["loss"] * trainer.accumulate_grad_batches
