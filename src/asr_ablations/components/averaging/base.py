"""Averaged weights beside the trained ones."""

from abc import ABC, abstractmethod
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn

Weights = list[torch.Tensor]


def weights_of(model: nn.Module) -> Weights:
    """The floating-point tensors of a model, running statistics too, in a fixed order."""
    return [t.detach() for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]


def copy_into(model: nn.Module, weights: Weights) -> None:
    """Give the model these values; its dtype stays."""
    for tensor, value in zip(weights_of(model), weights, strict=True):
        tensor.copy_(value)


class Averaging(pl.Callback, ABC):
    """Validation, the final evaluation and a checkpoint's state_dict have the averaged weights, training goes on from
    the trained ones. A checkpoint has these too, as trained_weights, and what the average is made of.
    """

    def __init__(self) -> None:
        self._trained: Weights | None = None

    @abstractmethod
    def averaged(self) -> Weights:
        """The average now; empty before there is one."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Tensors and numbers that `restore` takes: with them a resumed run is the same as an unbroken one."""

    @abstractmethod
    def restore(self, state: dict[str, Any], device: torch.device) -> None: ...

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.averaged():
            self._trained = [t.clone() for t in weights_of(pl_module.model)]  # type: ignore[arg-type]
            copy_into(pl_module.model, self.averaged())  # type: ignore[arg-type]

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._trained is not None:
            copy_into(pl_module.model, self._trained)  # type: ignore[arg-type]
            self._trained = None

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # not on_train_end, which a run resumed for its evaluation alone does not come to
        if self.averaged():
            copy_into(pl_module.model, self.averaged())  # type: ignore[arg-type]

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if not self.averaged():
            return
        model: nn.Module = pl_module.model  # type: ignore[assignment]
        now = [t.clone() for t in weights_of(model)]
        checkpoint["trained_weights"] = self._trained or now
        checkpoint["averaging"] = self.state()
        copy_into(model, self.averaged())
        checkpoint["state_dict"] = {key: value.clone() for key, value in pl_module.state_dict().items()}
        copy_into(model, now)

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if "averaging" in checkpoint:
            copy_into(pl_module.model, checkpoint["trained_weights"])  # type: ignore[arg-type]
            self.restore(checkpoint["averaging"], pl_module.device)
