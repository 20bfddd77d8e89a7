"""End of a run whose loss is no finite number any more."""

import math

import pytorch_lightning as pl
import torch

from asr_ablations.runs.status import Diverged
from asr_ablations.training.callbacks.metrics_table import step_loss
from asr_ablations.training.contracts import Checkpoint
from asr_ablations.training.ddp import gathered


class FiniteLoss(pl.Callback):
    """Raises Diverged, in all ranks at once, where the loss of a step or the mean loss of an epoch is infinite or no
    number.

    The losses stay on their device until an epoch or a checkpoint ends, so that no step waits for its loss. Looking
    before each checkpoint keeps weights that are no numbers out of it: a run that continues from one would name a
    later step than a run that was never interrupted.
    """

    def __init__(self) -> None:
        self._losses: list[torch.Tensor] = []
        self._steps = 0  # of this run before those in the list

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._steps = trainer.fit_loop.epoch_loop.total_batch_idx + 1

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        self._losses.append(step_loss(trainer, outputs).detach())

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        self._check()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._check(float(trainer.callback_metrics["train/loss"]))

    def _check(self, mean: float = 0.0) -> None:
        losses, self._losses = self._losses, []
        values = torch.stack(losses).float().cpu().tolist() if losses else []
        first = next((index for index, value in enumerate(values) if not math.isfinite(value)), None)
        own = None
        if first is not None:
            own = self._steps + first + 1, values[first]
        elif not math.isfinite(mean):  # the sum of finite losses is too large for their type
            own = self._steps + len(values), mean
        self._steps += len(values)
        # a rank that ended alone would leave the others waiting
        if ends := [end for end in gathered(own) if end is not None]:
            step, loss = min(ends, key=lambda end: end[0])
            raise Diverged(step, f"diverged at step {step}: the loss is {loss}")
