"""A training that ends when its time is up, in a process of its own.

benchmark=platform starts it, under torchrun if several ranks train together, with a frozen config whose
benchmark.minutes is the time limit.
"""

import time

import pytorch_lightning as pl
from omegaconf import DictConfig

from asr_ablations.config.entry import entry
from asr_ablations.experiment.fit import TrainingRun
from asr_ablations.experiment.run import set_up
from asr_ablations.tools.machine import rank
from asr_ablations.training.assembly import device_count
from asr_ablations.training.ddp import quiet
from asr_ablations.training.signals import StopRequest


class TimeLimit(pl.Callback):
    """Ends training with the epoch in which the minutes run out. Its validation counts, as in time to accuracy."""

    def __init__(self, minutes: float) -> None:
        self.seconds = 60 * minutes
        self.began = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.began = time.perf_counter()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        over = time.perf_counter() - self.began >= self.seconds
        # a rank that stopped alone would leave the others waiting for its gradients
        trainer.should_stop |= trainer.strategy.reduce_boolean_decision(over, all=False)


class TimedTrainingRun(TrainingRun):
    """The training and evaluation of a run, with a time limit."""

    def callbacks(self) -> list[pl.Callback]:
        minutes = self.cfg.benchmark.minutes
        return [*super().callbacks(), *([] if minutes is None else [TimeLimit(minutes)])]


@entry("benchmarks")
def main(cfg: DictConfig) -> None:
    """Train as one rank, from the beginning: what an earlier attempt left is kept beside."""
    quiet()
    stop = StopRequest()
    stop.listen()
    try:
        record, task, data = set_up(cfg)
        if not rank():
            record.keep_previous()
        with record:
            TimedTrainingRun(cfg, device_count(cfg), record, task, data, stop, None).run()
    finally:
        stop.close()
