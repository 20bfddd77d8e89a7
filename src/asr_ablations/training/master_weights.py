"""A model in 16 bits over master weights in 32 (Ambroszczyk2019 §2.1; Micikevicius et al. 2018, §3.1)."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import nn


@contextmanager
def copies_in(dtype: torch.dtype, model: nn.Module) -> Iterator[None]:
    """Within the context every parameter is a copy of this type. Buffers stay.

    Gradients that were computed through a copy reach the parameter itself, in float32: the optimizer, clipping and
    checkpoints see the master weights only, and an update that 16 bits would round away is kept. The copies are made
    anew in each context, so that they are the master weights of that step, rounded.
    """
    owned = [
        (part, name, weights)
        for part in model.modules()
        for name, weights in part._parameters.items()
        if weights is not None
    ]
    recurrent = [part for part in model.modules() if isinstance(part, nn.RNNBase)]
    try:
        for part, name, weights in owned:
            part._parameters[name] = weights.to(dtype)  # type: ignore[assignment]
        _refer_anew(recurrent)
        yield
    finally:
        for part, name, weights in owned:
            part._parameters[name] = weights
        _refer_anew(recurrent)


def sixteen_bit_copies(model: nn.Module) -> AbstractContextManager[None]:
    """Copies in float16 on a GPU, in bfloat16 on a CPU."""
    return copies_in(torch.float16 if next(model.parameters()).is_cuda else torch.bfloat16, model)


def _refer_anew(recurrent: list[nn.RNNBase]) -> None:
    """torch's recurrent layers keep a list of their weights beside them."""
    for part in recurrent:
        part._flat_weights = [getattr(part, name) for name in part._flat_weights_names]
