"""Layer-wise pretraining: the recurrent stack grows during training (Doetsch2016 §4; Bengio et al. 2007)."""

import pytorch_lightning as pl

from asr_ablations.tools.checks import is_whole
from asr_ablations.training.contracts import GrowingModel, Pretraining
from asr_ablations.training.task import task_of
from asr_verdicts.errors import UsageError


class GrowLayers(Pretraining):
    """Trains the first `first` recurrent layers, and adds one layer every `epochs` epochs up to `layers` layers.

    All layers are built and initialised at the start. The optimizer skips parameters without a gradient, so layers that
    are not yet in use keep their initial weights, except with penalty=l2. Adding a layer does not change the weights or
    the optimizer state of other layers. Checkpoints contain the number of layers in use (`active_layers`).

    Raises ValueError if a count is below 1, `first` exceeds `layers`, or training would end before all layers are used.
    """

    leaves_weights_out = True

    def __init__(self, *, first: int, epochs: int, layers: int, max_epochs: int) -> None:
        if not (is_whole(first, 1) and is_whole(epochs, 1)):
            raise ValueError(f"first={first}, epochs={epochs}: expected whole numbers, 1 or more")
        if first > layers:
            raise ValueError(f"first={first}: expected a whole number from 1 to {layers}, the number of layers")
        self.first, self.epochs, self.layers = first, epochs, layers
        if self.active(max_epochs - 1) < layers:
            needed = (layers - first) * epochs + 1
            raise ValueError(f"max_epochs={max_epochs}: expected {needed} or more, to reach {layers} layers")

    def active(self, epoch: int) -> int:
        """Return the number of layers in use in an epoch. The first epoch is 0."""
        return min(self.layers, self.first + epoch // self.epochs)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        model = task_of(pl_module).model
        if not isinstance(model, GrowingModel):
            raise UsageError(f"pretrain=layers: {type(model).__name__} cannot add layers later")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # Lightning does not call on_train_epoch_start if a run resumes in the middle of an epoch
        model = task_of(pl_module).model
        assert isinstance(model, GrowingModel)
        model.active_layers = self.active(trainer.current_epoch)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.on_train_start(trainer, pl_module)
        pl_module.log("train/active_layers", float(self.active(trainer.current_epoch)), batch_size=1)
