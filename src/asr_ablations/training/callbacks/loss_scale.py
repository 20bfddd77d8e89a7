"""What the dynamic loss scale of precision=16 does."""

from typing import Any

import pytorch_lightning as pl
import torch


class LossScale(pl.Callback):
    """Logs each epoch train/loss_scale and train/overflow_share, the share of steps that were skipped since a gradient
    did not fit into 16 bits; nothing where no loss is scaled. Nothing here waits for the device.
    """

    def __init__(self) -> None:
        self._before: torch.Tensor | None = None

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if scaler is None:
            return
        scale = scaler._get_scale_async().clone()  # get_scale would wait for the device
        # the scale falls after an overflow and never otherwise; _init_scale is a resumed scaler's own
        before = torch.full_like(scale, scaler._init_scale) if self._before is None else self._before
        options: dict[str, Any] = {"on_step": False, "on_epoch": True, "batch_size": 1}
        pl_module.log("train/overflow_share", (scale < before).float(), **options)
        pl_module.log("train/loss_scale", scale, **options)
        self._before = scale
