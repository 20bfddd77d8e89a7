"""Early stopping on a validation metric (Ambroszczyk2019 §1.4 and §2.1; Prechelt 1998)."""

import math

import pytorch_lightning as pl

from asr_ablations.runs.metrics_files import FIGURES
from asr_ablations.tools.checks import number, whole
from asr_ablations.training.contracts import Checkpoint, Stopping
from asr_ablations.training.task import task_of
from asr_verdicts.errors import choices


class Patience(Stopping):
    """Ends training after `patience` consecutive epochs without an improvement in `monitor`.

    An epoch is an improvement if `monitor` on the first validation set is more than `threshold` below the lowest value
    so far. NaN is never an improvement. The final evaluation still uses the last weights. checkpoints/best.ckpt holds
    the best weights according to the config key `best`, which may differ from `monitor`. Raises UsageError for an
    unknown monitor, a patience below 1 or a threshold below 0.
    """

    def __init__(self, *, monitor: str, patience: int, threshold: float) -> None:
        if monitor not in FIGURES:
            raise choices("stopping.monitor", monitor, FIGURES)
        self.monitor = monitor
        self.patience = whole("stopping.patience", patience, 1)
        self.threshold = number("stopping.threshold", threshold, least=0)
        self.lowest, self.waited = math.inf, 0

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        figure = trainer.callback_metrics.get(f"validation/{task_of(pl_module).validation_sets[0]}/{self.monitor}")
        if figure is None:  # speed measurements run no validation
            return
        # all ranks have the same value, so they stop after the same epoch
        if float(figure) < self.lowest - self.threshold:
            self.lowest, self.waited = float(figure), 0
        else:
            self.waited += 1
        trainer.should_stop |= self.waited >= self.patience

    def on_load_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        # a run that is resumed after being killed between training and evaluation must not train any further
        trainer.should_stop |= checkpoint["callbacks"][self.state_key]["waited"] >= self.patience

    def state_dict(self) -> dict[str, float]:
        return {"lowest": self.lowest, "waited": self.waited}

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        self.lowest, self.waited = state_dict["lowest"], int(state_dict["waited"])
