"""Communication between the ranks of distributed training (DDP)."""

import atexit
from typing import Any, TypeVar

import torch
from pytorch_lightning.strategies import DDPStrategy
from torch import distributed, nn


@atexit.register
def _leave_the_group() -> None:
    """Stop gloo's threads before the process exits, because they sometimes abort it."""
    if distributed.is_available() and distributed.is_initialized() and distributed.get_backend() == "gloo":
        distributed.destroy_process_group()


Value = TypeVar("Value")


def is_distributed() -> bool:
    """Return whether this process is one of several ranks that train together."""
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def gather_from_ranks(value: Value) -> list[Value]:
    """Collect the values of all ranks, in the order of ranks. Every rank must call this."""
    if not is_distributed():
        return [value]
    values = [value] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


@torch.no_grad()
def share_buffers(model: nn.Module) -> None:
    """Copy the first rank's running statistics to all ranks, because each rank updates its own in a step."""
    if is_distributed():
        for buffer in model.buffers():
            distributed.broadcast(buffer, src=0)


class UnhurriedRanks(DDPStrategy):
    """DDP in which the values that a training step logs stay on their rank until the end of the epoch.

    Lightning would average each logged value at once. Every step would need a barrier and an all-reduce, for which the
    host waits for the device, although only every tenth value is written. Buffers are not broadcast before each step
    either, because no training step reads buffers that differ between ranks; share_buffers precedes a validation.
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
