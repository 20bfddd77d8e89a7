"""The average of the weights after the last few epochs (checkpoint averaging; Vaswani et al. 2017 §6.1)."""

from collections import deque
from typing import Any

import pytorch_lightning as pl
import torch

from asr_ablations.components.averaging.base import Averaging, Weights, weights_of


class LastEpochs(Averaging):
    """The mean of the weights at the ends of the last `count` epochs, or of as many as there were. Raises ValueError
    for a count below 1.
    """

    def __init__(self, *, count: int) -> None:
        super().__init__()
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"count={count}: expected a whole number, 1 or more")
        self._epochs: deque[Weights] = deque(maxlen=count)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.is_last_batch:
            self._epochs.append([t.clone() for t in weights_of(pl_module.model)])  # type: ignore[arg-type]

    def averaged(self) -> Weights:
        return [torch.stack(same).float().mean(dim=0) for same in zip(*self._epochs, strict=True)]

    def state(self) -> dict[str, Any]:
        return {"epochs": list(self._epochs)}

    def restore(self, state: dict[str, Any], device: torch.device) -> None:
        self._epochs.extend([t.to(device) for t in epoch] for epoch in state["epochs"])
