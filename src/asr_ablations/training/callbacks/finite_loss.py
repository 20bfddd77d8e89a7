"""End of a run whose loss is no finite number any more."""

import math

import pytorch_lightning as pl


class FiniteLoss(pl.Callback):
    """Raises RuntimeError at the end of an epoch whose mean training loss is infinite or no number."""

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        loss = float(trainer.callback_metrics["train/loss"])
        if not math.isfinite(loss):
            raise RuntimeError(f"the training loss of epoch {trainer.current_epoch + 1} is {loss}, not a finite number")
