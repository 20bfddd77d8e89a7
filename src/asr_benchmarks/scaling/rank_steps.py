"""Timed training steps of one rank among those that train together.

benchmark=scaling starts it, under torchrun if there are several ranks, with a frozen config whose `benchmark` holds
steps, warmup and the path of the file for the measurement.
"""

from pathlib import Path

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig

from asr_ablations import SAMPLE_RATE
from asr_ablations.config.entry import entry
from asr_ablations.data.batch import Batch
from asr_ablations.experiment.run import set_up
from asr_ablations.tools.machine import device_clock, peak_memory
from asr_ablations.training.assembly import device_count, trainer
from asr_ablations.training.ddp import quiet
from asr_verdicts.files import write_json


class StepClock(pl.Callback):
    """Measures the time of `steps` steps after `warmup` others, reading included. The device is waited for twice: a run
    never waits in between.
    """

    def __init__(self, warmup: int, steps: int) -> None:
        self.warmup, self.steps = warmup, steps
        self.started = self.ended = 0.0
        self.audio = torch.zeros(2, dtype=torch.float64)  # samples and utterances of this rank

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: Batch, batch_idx: int
    ) -> None:
        # the gradient's reduction keeps the ranks in step: one clock is enough
        if trainer.global_step == self.warmup:
            self.started = device_clock(pl_module.device)
        if trainer.global_step == self.warmup + self.steps:
            self.ended = device_clock(pl_module.device)
        if trainer.global_step > self.warmup:
            self.audio += torch.tensor([float(batch.lengths.sum()), len(batch.ids)], dtype=torch.float64)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.world_size > 1:
            self.audio = trainer.strategy.reduce(self.audio.to(pl_module.device), reduce_op="sum").cpu()

    def measurement(self) -> dict[str, float]:
        """seconds: mean of a step; R: hours of audio per second, and utterances per step, of all ranks together."""
        seconds = self.ended - self.started
        hours, utterances = float(self.audio[0]) / SAMPLE_RATE / 3600, float(self.audio[1])
        return {
            "seconds": seconds / self.steps,
            "R": hours / seconds,
            "utterances": utterances / self.steps,
        }


@entry("benchmarks")
def main(cfg: DictConfig) -> None:
    """Train as one rank; the first rank writes the measurement."""
    quiet()
    options = cfg.benchmark
    _, task, data = set_up(cfg)
    clock = StepClock(options.warmup, options.steps)
    limits = {"max_epochs": -1, "max_steps": options.warmup + options.steps, "limit_val_batches": 0}
    fitter = trainer(cfg, device_count(cfg), [], [clock], **limits)
    fitter.fit(task, data)
    if fitter.is_global_zero:
        on_gpu = fitter.strategy.root_device.type == "cuda"
        peak = torch.cuda.max_memory_reserved() if on_gpu else peak_memory()
        write_json(Path(options.measurement), {**clock.measurement(), "peak": peak})
