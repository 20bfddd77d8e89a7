"""Exponential moving average of the weights (Polyak & Juditsky 1992; Tarvainen & Valpola 2017)."""

import pytorch_lightning as pl
import torch

from asr_ablations.components.averaging.base import Averaging, weights_of
from asr_ablations.training.task import ends_update, task_of
from asr_verdicts.errors import UsageError


class ExponentialAverage(Averaging):
    """Computes average = decay · average + (1 - decay) · weights after every optimizer step.

    The average starts as the weights after the first step. It is in float32, because 16 bits would lose small changes.
    Lightning's EMA callback is not used, because it would copy the whole task, even the decoder and its language model.
    Raises ValueError unless 0 < decay < 1.
    """

    def __init__(self, *, decay: float) -> None:
        super().__init__(count=1)
        if not 0 < decay < 1:
            raise ValueError(f"decay={decay}: expected above 0 and below 1")
        self.decay = decay

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if getattr(trainer.strategy, "independent_workers", False):
            raise UsageError(
                "averaging=ema: ranks have different weights after a step of trainer=local_sgd; expected last or none"
            )

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        if not ends_update(trainer, batch_idx):
            return
        weights = [t.float() for t in weights_of(task_of(pl_module).model)]
        if self.kept:
            torch._foreach_lerp_(self.kept[0], weights, 1 - self.decay)
        else:
            self.kept.append([t.clone() for t in weights])
