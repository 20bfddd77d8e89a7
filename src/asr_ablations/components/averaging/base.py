"""Weight averaging: averaged weights are evaluated, while training continues with the unaveraged weights."""

from collections import deque

import pytorch_lightning as pl
import torch
from torch import nn

from asr_ablations.training.contracts import Checkpoint, WeightAveraging
from asr_ablations.training.task import task_of

Weights = list[torch.Tensor]
"""Floating-point tensors of a model, in the order of `weights_of`."""


def weights_of(model: nn.Module) -> Weights:
    """Return a model's floating-point parameters and buffers, such as running statistics, in a fixed order."""
    return [t.detach() for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]


def copy_into(model: nn.Module, weights: Weights) -> None:
    """Copy `weights` into the tensors of a model, which keep their dtypes."""
    for tensor, value in zip(weights_of(model), weights, strict=True):
        tensor.copy_(value)


class Averaging(WeightAveraging):
    """Base class that evaluates averaged weights, while training continues with the unaveraged weights.

    Validation, the final evaluation and the state_dict of a checkpoint use the average. A checkpoint also contains the
    unaveraged weights as `trained_weights`, and the contents of `kept` as `averaging`.

    count: maximum length of `kept`, to which subclasses append the weights to average
    """

    def __init__(self, count: int) -> None:
        self._trained: Weights | None = None
        self.kept: deque[Weights] = deque(maxlen=count)

    def averaged(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> Weights:
        """Return the mean of the weights in `kept` in float32, or an empty list if `kept` is empty."""
        return [torch.stack(same).float().mean(dim=0) for same in zip(*self.kept, strict=True)]

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if average := self.averaged(trainer, pl_module):
            self._trained = [t.clone() for t in weights_of(task_of(pl_module).model)]
            copy_into(task_of(pl_module).model, average)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._trained is not None:
            copy_into(task_of(pl_module).model, self._trained)
            self._trained = None

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # Lightning does not call on_train_end in a run that is resumed only for evaluation
        if average := self.averaged(trainer, pl_module):
            copy_into(task_of(pl_module).model, average)

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        if not (average := self.averaged(trainer, pl_module)):
            return
        model = task_of(pl_module).model
        current = [t.clone() for t in weights_of(model)]
        checkpoint["trained_weights"] = self._trained or current
        checkpoint["averaging"] = [[t.clone() for t in weights] for weights in self.kept]
        copy_into(model, average)
        checkpoint["state_dict"] = {key: value.clone() for key, value in pl_module.state_dict().items()}
        copy_into(model, current)

    def on_load_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        if "averaging" in checkpoint:
            copy_into(task_of(pl_module).model, checkpoint["trained_weights"])
            self.kept.extend([t.to(pl_module.device) for t in weights] for weights in checkpoint["averaging"])
