"""Between two epochs of a fit."""

from queue import Queue
from typing import Any

import pytorch_lightning as pl

from asr_ablations.tools.machine import device_clock


class Gate(pl.Callback):
    """An epoch begins when `go` says so, and ends with its seconds and its mean loss in `done`."""

    def __init__(self, go: Queue[None], done: Queue[Any], batches: Any) -> None:
        self.go, self.done, self.batches = go, done, batches
        self.started = 0.0

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.go.get()
        self.started = device_clock(pl_module.device)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        seconds = device_clock(pl_module.device) - self.started
        self.batches.number += 1
        self.done.put({"seconds": seconds, "loss": float(trainer.callback_metrics["train/loss"])})
