"""Layer by layer: the recurrent stack grows while it trains (papers/002 §4; Bengio et al. 2007)."""

import pytorch_lightning as pl

from asr_ablations.tools.errors import UsageError


class GrowLayers(pl.Callback):
    """`first` recurrent layers in the beginning and another one every `epochs` epochs.

    All layers are made, and drawn, at the start: the optimizer leaves a parameter without a gradient alone, so that
    those which wait keep their first weights, and those which stay keep weights and optimizer state. The model tells
    in `active_layers` how many it goes through, which is part of its checkpoints. Raises ValueError for counts below 1,
    and where training would end before the stack is whole.
    """

    leaves_weights_out = True

    def __init__(self, *, first: int, epochs: int, layers: int, max_epochs: int) -> None:
        if not (isinstance(first, int) and isinstance(epochs, int) and min(first, epochs) >= 1):
            raise ValueError(f"first={first}, epochs={epochs}: expected whole numbers, 1 or more")
        self.first, self.epochs, self.layers = first, epochs, layers
        if self.active(max_epochs - 1) < layers:
            needed = (layers - first) * epochs + 1
            raise ValueError(f"max_epochs={max_epochs}: expected {needed} or more, for {layers} layers to be reached")

    def active(self, epoch: int) -> int:
        """Layers in an epoch, counted from 0."""
        return min(self.layers, self.first + epoch // self.epochs)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if not hasattr(pl_module.model, "active_layers"):
            raise UsageError(f"pretrain=layers: {type(pl_module.model).__name__} has no layers that can wait")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # no epoch starts where a run is resumed within one
        pl_module.model.active_layers = self.active(trainer.current_epoch)  # type: ignore[union-attr]

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.on_train_start(trainer, pl_module)
        pl_module.log("train/active_layers", float(self.active(trainer.current_epoch)), batch_size=1)
