"""Average of the weights at the ends of the last few epochs (checkpoint averaging; Vaswani et al. 2017 §6.1)."""

import pytorch_lightning as pl

from asr_ablations.components.averaging.base import Averaging, weights_of
from asr_ablations.tools.checks import is_whole
from asr_ablations.training.task import task_of


class LastEpochs(Averaging):
    """Averages the weights at the ends of the last `count` epochs, or of all epochs so far if there are fewer.

    Raises ValueError if `count` is below 1.
    """

    def __init__(self, *, count: int) -> None:
        if not is_whole(count, 1):
            raise ValueError(f"count={count}: expected a whole number, 1 or more")
        super().__init__(count)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: object) -> None:
        if trainer.is_last_batch:
            self.kept.append([t.clone() for t in weights_of(task_of(pl_module).model)])
