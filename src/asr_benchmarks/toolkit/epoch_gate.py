"""A pause between the epochs of a fit, so that other engines can have their turn."""

from queue import Queue
from typing import TYPE_CHECKING, TypedDict

import pytorch_lightning as pl

from asr_ablations.tools.machine import device_clock

if TYPE_CHECKING:
    from asr_benchmarks.toolkit.task import Batches


class TimedLoss(TypedDict):
    """Seconds of an epoch, and its mean loss in nats per frame."""

    seconds: float
    loss: float


class EpochGate(pl.Callback):
    """Lets each epoch begin when `go` receives an item, and puts its seconds and mean loss into `done` at its end. An
    exception of the fit is put there by the fit's own thread.
    """

    def __init__(self, go: Queue[None], done: Queue[TimedLoss | Exception], batches: "Batches") -> None:
        self.go, self.done, self.batches = go, done, batches
        self.started = 0.0

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.go.get()
        self.started = device_clock(pl_module.device)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        seconds = device_clock(pl_module.device) - self.started
        self.batches.number += 1
        self.done.put({"seconds": seconds, "loss": float(trainer.callback_metrics["train/loss"])})
