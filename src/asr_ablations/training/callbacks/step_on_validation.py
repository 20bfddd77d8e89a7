"""Steps a schedule that waits for a validation figure."""

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.trainer.states import TrainerFn


class StepOnValidation(pl.Callback):
    """After each validation within training, steps the schedule with the figure that its `monitor` names.

    Lightning's own way does so after the epoch's checkpoint is written, and leaves the step out on resuming from it.
    Callbacks that write checkpoints come last: they see the stepped schedule.
    """

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.state.fn != TrainerFn.FITTING:
            return
        for config in trainer.lr_scheduler_configs:
            schedule: Any = config.scheduler
            if getattr(schedule, "monitor", None) is not None:
                first = pl_module.validation_sets[0]  # type: ignore[index]
                schedule.step(float(trainer.callback_metrics[f"validation/{first}/{schedule.monitor}"]))
