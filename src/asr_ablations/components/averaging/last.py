"""Average of the weights after the last few epochs (checkpoint averaging; Vaswani et al. 2017 §6.1)."""

from collections import deque

import pytorch_lightning as pl
import torch

from asr_ablations.components.averaging.base import Averaging, Weights, weights_of
from asr_ablations.tools.checks import is_whole
from asr_ablations.training.contracts import Checkpoint
from asr_ablations.training.task import task_of


class LastEpochs(Averaging):
    """Averages the weights at the ends of the last `count` epochs, or of all epochs if there are fewer. Raises
    ValueError for a count below 1.
    """

    def __init__(self, *, count: int) -> None:
        super().__init__()
        if not is_whole(count, 1):
            raise ValueError(f"count={count}: expected a whole number, 1 or more")
        self._epochs: deque[Weights] = deque(maxlen=count)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: object) -> None:
        if trainer.is_last_batch:
            self._epochs.append([t.clone() for t in weights_of(task_of(pl_module).model)])

    def averaged(self) -> Weights:
        return [torch.stack(same).float().mean(dim=0) for same in zip(*self._epochs, strict=True)]

    def state(self) -> Checkpoint:
        return {"epochs": list(self._epochs)}

    def restore(self, state: Checkpoint, device: torch.device) -> None:
        self._epochs.extend([t.to(device) for t in epoch] for epoch in state["epochs"])
