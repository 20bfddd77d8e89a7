"""What the ranks of one run exchange beside gradients; nothing where there is only one."""

from typing import TypeVar, cast

import torch
from torch import distributed, nn

Value = TypeVar("Value")


def several() -> bool:
    """Whether this process is one of several ranks."""
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
