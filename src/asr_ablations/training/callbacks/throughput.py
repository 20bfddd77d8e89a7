"""Throughput: hours of audio trained per second, without padding."""

import time

import pytorch_lightning as pl

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.batch import Batch
from asr_ablations.tools.machine import device_clock


class Throughput(pl.Callback):
    """Logs train/epoch_seconds, train/audio_hours_per_second (R) and train/learning_rate.

    An epoch's seconds end with its last batch. R is the hours of audio, without padding, over these seconds.
    """

    def __init__(self) -> None:
        self.seconds = self.audio_hours = self.train_seconds = 0.0
        self._samples = 0
        self._started = 0.0
        self.first_step = 0.0  # when the first step of this process ended, as time.time()

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._samples = 0
        self._started = time.perf_counter()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: Batch, batch_idx: int
    ) -> None:
        self.first_step = self.first_step or time.time()
        self._samples += int(batch.lengths.sum())
        if trainer.is_last_batch:
            seconds = device_clock(pl_module.device) - self._started
            hours = self._samples * trainer.world_size / SAMPLE_RATE / 3600
            self.audio_hours += hours
            self.train_seconds += seconds
            pl_module.log("train/audio_hours_per_second", hours / seconds, on_step=False, on_epoch=True, batch_size=1)
            pl_module.log("train/epoch_seconds", seconds, on_step=False, on_epoch=True, batch_size=1)
            rate = trainer.optimizers[0].param_groups[0]["lr"]
            pl_module.log("train/learning_rate", rate, on_step=False, on_epoch=True, batch_size=1)

    def state_dict(self) -> dict[str, float]:
        return {"audio_hours": self.audio_hours, "train_seconds": self.train_seconds, "samples": self._samples,
                "seconds": time.perf_counter() - self._started}  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        self.audio_hours, self.train_seconds = state_dict["audio_hours"], state_dict["train_seconds"]
        # the run may continue in the middle of an epoch, and its on_train_epoch_start is not called again
        self._samples, self._started = int(state_dict["samples"]), time.perf_counter() - state_dict["seconds"]

    @property
    def rate(self) -> float:
        """Return hours of audio per second of training batches."""
        return self.audio_hours / self.train_seconds if self.train_seconds else 0.0
