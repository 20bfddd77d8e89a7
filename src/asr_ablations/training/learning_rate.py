"""Step learning rate schedules after a validation; task.py steps the others after each step of the optimizer."""

import pytorch_lightning as pl
from pytorch_lightning.trainer.states import TrainerFn

from asr_ablations.training.contracts import MonitoredSchedule
from asr_ablations.training.task import task_of


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
                first = task_of(pl_module).validation_sets[0]
                schedule.step(float(trainer.callback_metrics[f"validation/{first}/{schedule.monitor}"]))
