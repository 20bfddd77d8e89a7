"""Ranks that meet for gradients and for the means of an epoch, and for nothing else."""

from typing import Any

import torch
from pytorch_lightning.strategies import DDPStrategy


class UnhurriedRanks(DDPStrategy):
    """What a training step logs stays its rank's own until the mean of the epoch is taken over all ranks.

    Lightning would take the mean of each logged value at once: a barrier and an all-reduce in every step, for which the
    host waits until the device has caught up, while it writes every tenth value only. Buffers are not broadcast before
    each step either: a step reads none that ranks move apart, and share_buffers sets them before a validation.
    """

    _stepping = False

    def __init__(self, **options: Any) -> None:
        super().__init__(broadcast_buffers=False, **options)

    def training_step(self, *arguments: Any, **keywords: Any) -> Any:
        self._stepping = True
        try:
            return super().training_step(*arguments, **keywords)
        finally:
            self._stepping = False

    def reduce(self, tensor: torch.Tensor, group: Any = None, reduce_op: Any = "mean") -> torch.Tensor:
        return tensor if self._stepping else super().reduce(tensor, group, reduce_op)
