"""Exchange data between the ranks of distributed training (DDP)."""

import atexit
from typing import Any, TypeVar

import torch
from pytorch_lightning.strategies import DDPStrategy
from torch import distributed, nn


@atexit.register
def _leave_the_group() -> None:
    """Stop gloo's threads before the process exits, because running threads sometimes make it abort."""
    if distributed.is_available() and distributed.is_initialized() and distributed.get_backend() == "gloo":
        distributed.destroy_process_group()


Value = TypeVar("Value")


def is_distributed() -> bool:
    """Return whether this process is one of several ranks that train together."""
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def gather_from_ranks(value: Value) -> list[Value]:
    """Return the values of all ranks, in rank order. Every rank must call this function."""
    if not is_distributed():
        return [value]
    values = [value] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


@torch.no_grad()
def share_buffers(model: nn.Module) -> None:
    """Copy the first rank's buffers to all ranks, because each rank updates its own running statistics in training."""
    if is_distributed():
        for buffer in model.buffers():
            distributed.broadcast(buffer, src=0)


class UnhurriedRanks(DDPStrategy):
    """DDP strategy that averages logged training values over ranks only at the end of the epoch.

    Lightning would average each value at once. Every step would then need a barrier and an all-reduce that wait for the
    device, although only every tenth value is written. Buffers are not broadcast before each step, because no training
    step reads buffers that differ between ranks; share_buffers copies them before a validation.
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
