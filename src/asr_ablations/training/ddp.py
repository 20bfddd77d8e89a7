"""Exchange between the ranks of distributed training (DDP)."""

import atexit
from typing import Any, TypeVar, cast

import torch
from pytorch_lightning.strategies import DDPStrategy
from torch import distributed, nn


@atexit.register
def _leave_the_group() -> None:
    """End gloo's threads before the process ends: they live on in it otherwise, and once in many runs abort it."""
    if distributed.is_available() and distributed.is_initialized() and distributed.get_backend() == "gloo":
        distributed.destroy_process_group()


Value = TypeVar("Value")


def several() -> bool:
    """Return whether this process is one of several ranks."""
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def gathered(value: Value) -> list[Value]:
    """The values of all ranks in their order, on every rank."""
    if not several():
        return [value]
    values: list[Value | None] = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return cast(list[Value], values)


@torch.no_grad()
def share_buffers(model: nn.Module) -> None:
    """Set the running statistics of every rank to the first one's: in a step each moves its own."""
    if several():
        for buffer in model.buffers():
            distributed.broadcast(buffer, src=0)


class UnhurriedRanks(DDPStrategy):
    """DDP that keeps the values of a training step on their rank until the mean of the epoch is taken.

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
