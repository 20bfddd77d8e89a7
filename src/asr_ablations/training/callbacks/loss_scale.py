"""The dynamic loss scale of precision=16 in the log."""

import pytorch_lightning as pl
import torch

from asr_ablations.training.accumulation import ends_update


class LossScale(pl.Callback):
    """Logs train/loss_scale and train/overflow_share in each epoch: the latter is the share of steps that were skipped
    because a gradient did not fit into 16 bits. Logs nothing where no loss is scaled. Does not wait for the device.
    """

    def __init__(self) -> None:
        self._before: torch.Tensor | None = None

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if scaler is None or not ends_update(trainer, batch_idx):
            return
        scale = scaler._get_scale_async().clone()  # get_scale would wait for the device
        # the scale falls after an overflow and never otherwise; a resumed scaler has its own _init_scale
        before = torch.full_like(scale, scaler._init_scale) if self._before is None else self._before
        pl_module.log("train/overflow_share", (scale < before).float(), on_step=False, on_epoch=True, batch_size=1)
        pl_module.log("train/loss_scale", scale, on_step=False, on_epoch=True, batch_size=1)
        self._before = scale
