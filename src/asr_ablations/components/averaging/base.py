"""Averaged weights beside the trained ones."""

from abc import ABC, abstractmethod

import pytorch_lightning as pl
import torch
from torch import nn

from asr_ablations.training.contracts import Checkpoint, WeightAveraging
from asr_ablations.training.task import task_of

Weights = list[torch.Tensor]
"""The floating-point tensors of a model in the order of `weights_of`."""


def weights_of(model: nn.Module) -> Weights:
    """The floating-point tensors of a model, running statistics included, in a fixed order."""
    return [t.detach() for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]


def copy_into(model: nn.Module, weights: Weights) -> None:
    """Set the weights of a model to these values; its dtype stays."""
    for tensor, value in zip(weights_of(model), weights, strict=True):
        tensor.copy_(value)


class Averaging(WeightAveraging, ABC):
    """Gives the averaged weights to validation, the final evaluation and a checkpoint's state_dict, while training
    continues from the trained ones.

    A checkpoint holds the trained ones too, as trained_weights, and under averaging what the average is made of.
    """

    def __init__(self) -> None:
        self._trained: Weights | None = None

    @abstractmethod
    def averaged(self) -> Weights:
        """The current average; empty before there is one."""

    @abstractmethod
    def state(self) -> Checkpoint:
        """Tensors and numbers for `restore`: with them a resumed run equals an uninterrupted one."""

    @abstractmethod
    def restore(self, state: Checkpoint, device: torch.device) -> None:
        """Take over what `state` returned, moved to the device of the model."""

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.averaged():
            self._trained = [t.clone() for t in weights_of(task_of(pl_module).model)]
            copy_into(task_of(pl_module).model, self.averaged())

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._trained is not None:
            copy_into(task_of(pl_module).model, self._trained)
            self._trained = None

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # not on_train_end, which is not called in a run that is resumed for its evaluation alone
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
