"""Averages of weights, which are evaluated while training continues with the unaveraged weights."""

from collections import deque

import pytorch_lightning as pl
import torch
from torch import nn

from asr_ablations.training.contracts import Checkpoint, WeightAveraging
from asr_ablations.training.task import task_of

Weights = list[torch.Tensor]
"""Floating-point tensors of a model, in the order in which `weights_of` lists them."""


def weights_of(model: nn.Module) -> Weights:
    """Return the floating-point tensors of a model, including running statistics, in a fixed order."""
    return [t.detach() for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]


def copy_into(model: nn.Module, weights: Weights) -> None:
    """Copy values into the weights of a model, whose dtypes do not change."""
    for tensor, value in zip(weights_of(model), weights, strict=True):
        tensor.copy_(value)


class Averaging(WeightAveraging):
    """Evaluates averaged weights, while training continues with the trained ones.

    Validation, the final evaluation and the state_dict of a checkpoint use the average. A checkpoint also contains the
    trained weights (trained_weights) and the weights to average (averaging).

    count: number of the latest weights to average; subclasses append to `kept`.
    """

    def __init__(self, count: int) -> None:
        self._trained: Weights | None = None
        self.kept: deque[Weights] = deque(maxlen=count)

    def averaged(self) -> Weights:
        """Return the mean of the weights in `kept` in float32, or an empty list if there are none yet."""
        return [torch.stack(same).float().mean(dim=0) for same in zip(*self.kept, strict=True)]

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.kept:
            self._trained = [t.clone() for t in weights_of(task_of(pl_module).model)]
            copy_into(task_of(pl_module).model, self.averaged())

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._trained is not None:
            copy_into(task_of(pl_module).model, self._trained)
            self._trained = None

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # on_train_end is not called in a run that is resumed only to be evaluated
        if self.kept:
            copy_into(task_of(pl_module).model, self.averaged())

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        if not self.kept:
            return
        model = task_of(pl_module).model
        current = [t.clone() for t in weights_of(model)]
        checkpoint["trained_weights"] = self._trained or current
        checkpoint["averaging"] = [[t.clone() for t in weights] for weights in self.kept]
        copy_into(model, self.averaged())
        checkpoint["state_dict"] = {key: value.clone() for key, value in pl_module.state_dict().items()}
        copy_into(model, current)

    def on_load_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        if "averaging" in checkpoint:
            copy_into(task_of(pl_module).model, checkpoint["trained_weights"])
            self.kept.extend([t.to(pl_module.device) for t in weights] for weights in checkpoint["averaging"])
