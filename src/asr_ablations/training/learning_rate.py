"""Step learning rate schedules: after each optimizer step, or after each validation."""

from typing import Any, cast

import pytorch_lightning as pl
from pytorch_lightning.trainer.states import TrainerFn
from torch.optim.lr_scheduler import LRScheduler

from asr_ablations.training.contracts import MonitoredSchedule


def step_after_optimizer(schedule: object) -> None:
    """Step a schedule, unless it is stepped on validations."""
    if not isinstance(schedule, MonitoredSchedule):
        cast(LRScheduler, schedule).step()


class StepOnValidation(pl.Callback):
    """Steps a MonitoredSchedule after each validation within training, with the figure that its `monitor` names.

    Lightning itself would step it after writing the epoch's checkpoint, and a run resumed from that checkpoint would
    miss the step. Callbacks that write checkpoints come after this one, so they save the stepped schedule.
    """

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.state.fn != TrainerFn.FITTING:
            return
        for config in trainer.lr_scheduler_configs:
            schedule: object = config.scheduler
            if isinstance(schedule, MonitoredSchedule):
                first = cast(Any, pl_module).validation_sets[0]  # the task's; task.py imports this module
                schedule.step(float(trainer.callback_metrics[f"validation/{first}/{schedule.monitor}"]))
