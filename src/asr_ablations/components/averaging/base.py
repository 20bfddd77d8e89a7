"""Averaged weights for evaluation, while training continues from the trained ones."""

from abc import ABC, abstractmethod

import pytorch_lightning as pl
import torch
from torch import nn

from asr_ablations.training.contracts import Checkpoint, WeightAveraging
from asr_ablations.training.task import task_of

Weights = list[torch.Tensor]
"""The floating-point tensors of a model, in the order of `weights_of`."""


def weights_of(model: nn.Module) -> Weights:
    """List the floating-point tensors of a model, including running statistics, in a fixed order."""
    return [t.detach() for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]


def copy_into(model: nn.Module, weights: Weights) -> None:
    """Copy values into the weights of a model, which keep their dtype."""
    for tensor, value in zip(weights_of(model), weights, strict=True):
        tensor.copy_(value)


class Averaging(WeightAveraging, ABC):
    """Uses averaged weights in validation, the final evaluation and a checkpoint's state_dict. Training continues from
    the trained weights. A checkpoint has them as trained_weights, and the state of the average as averaging.
    """

    def __init__(self) -> None:
        self._trained: Weights | None = None

    @abstractmethod
    def averaged(self) -> Weights:
        """Return the current average; empty before the first one."""

    @abstractmethod
    def state(self) -> Checkpoint:
        """Return the tensors and numbers with which a resumed run equals an uninterrupted one."""

    @abstractmethod
    def restore(self, state: Checkpoint, device: torch.device) -> None:
        """Load a result of `state` onto the device of the model."""

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.averaged():
            self._trained = [t.clone() for t in weights_of(task_of(pl_module).model)]
            copy_into(task_of(pl_module).model, self.averaged())

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._trained is not None:
            copy_into(task_of(pl_module).model, self._trained)
            self._trained = None

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # on_train_end is not called in a run that is resumed only to be evaluated
        if self.averaged():
            copy_into(task_of(pl_module).model, self.averaged())

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        if not self.averaged():
            return
        model = task_of(pl_module).model
        current = [t.clone() for t in weights_of(model)]
        checkpoint["trained_weights"] = self._trained or current
        checkpoint["averaging"] = self.state()
        copy_into(model, self.averaged())
        checkpoint["state_dict"] = {key: value.clone() for key, value in pl_module.state_dict().items()}
        copy_into(model, current)

    def on_load_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        if "averaging" in checkpoint:
            copy_into(task_of(pl_module).model, checkpoint["trained_weights"])
            self.restore(checkpoint["averaging"], pl_module.device)
