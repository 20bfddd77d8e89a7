"""Timed training steps of one rank among those that train together. benchmark=scaling starts it, under torchrun where
there are several, with a frozen config whose `benchmark` holds steps, warmup and the file for the answer.
"""

import json
import statistics
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from asr_ablations import SAMPLE_RATE
from asr_ablations.config.entry import entry
from asr_ablations.experiment.run import set_up
from asr_ablations.tools.machine import device_clock, peak_memory
from asr_ablations.training.assembly import device_count, trainer
from asr_ablations.training.quiet import quiet


class StepClock(pl.Callback):
    """The time from the end of one step to the end of the next, reading included, once `warmup` steps are made."""

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.ends: list[float] = []
        self.audio = torch.zeros(2, dtype=torch.float64)  # samples and utterances of this rank

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        now = device_clock(pl_module.device)  # the gradient's reduction keeps the ranks in step: one clock is enough
        if trainer.global_step >= self.warmup:
            self.ends.append(now)
        if trainer.global_step > self.warmup:
            self.audio += torch.tensor([float(batch.lengths.sum()), len(batch.ids)], dtype=torch.float64)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.world_size > 1:
            self.audio = trainer.strategy.reduce(self.audio.to(pl_module.device), reduce_op="sum").cpu()

    def answer(self) -> dict[str, float]:
        """Mean seconds of a step; hours of audio a second (R) and utterances a step of all ranks together."""
        seconds = [after - before for before, after in zip(self.ends, self.ends[1:], strict=False)]
        hours, utterances = float(self.audio[0]) / SAMPLE_RATE / 3600, float(self.audio[1])
        rate, each = hours / sum(seconds), utterances / len(seconds)
        return {"seconds": statistics.fmean(seconds), "R": rate, "utterances": each}


@entry("benchmarks")
def main(cfg: Any) -> None:
    """One rank's part; the first one writes the answer."""
    quiet()
    asked = cfg.benchmark
    _, task, data = set_up(cfg)
    clock = StepClock(asked.warmup)
    limits = {"max_epochs": -1, "max_steps": asked.warmup + asked.steps, "limit_val_batches": 0}
    fitter = trainer(cfg, device_count(cfg), [], [clock], **limits)
    fitter.fit(task, data)
    if fitter.is_global_zero:
        on_gpu = fitter.strategy.root_device.type == "cuda"
        peak = torch.cuda.max_memory_reserved() if on_gpu else peak_memory()
        Path(asked.answer).write_text(json.dumps({**clock.answer(), "peak": peak}), encoding="utf-8")
