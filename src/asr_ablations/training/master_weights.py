"""A 16-bit model with 32-bit master weights (Ambroszczyk2019 §2.1; Micikevicius et al. 2018, §3.1)."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import nn


@contextmanager
def copies_in(dtype: torch.dtype, model: nn.Module) -> Iterator[None]:
    """Replace every parameter by a copy of this dtype within the context. Buffers stay.

    Gradients through a copy reach the parameter itself, in float32. The optimizer, clipping and checkpoints see only
    the master weights, so updates that 16 bits would round away are kept. Each context makes new copies: the master
    weights of that step, rounded.
    """
    originals = [(part._parameters, dict(part._parameters)) for part in model.modules()]
    recurrent = [part for part in model.modules() if isinstance(part, nn.RNNBase)]
    copies = _make_copies(dtype, model)
    try:
        for parameters, before in originals:
            parameters.update({name: copies[weights] for name, weights in before.items() if weights is not None})  # type: ignore[misc]
        _refresh_weight_lists(recurrent)
        yield
    finally:
        for parameters, before in originals:
            parameters.update(before)
        _refresh_weight_lists(recurrent)


def sixteen_bit_copies(model: nn.Module) -> AbstractContextManager[None]:
    """Replace the parameters by copies within the context: float16 on a GPU, bfloat16 on a CPU."""
    return copies_in(torch.float16 if next(model.parameters()).is_cuda else torch.bfloat16, model)


def _make_copies(dtype: torch.dtype, model: nn.Module) -> dict[nn.Parameter, torch.Tensor]:
    """Copy each parameter. A layer's gradients come in one launch after its backward pass, as its copies did; ranks
    exchange them meanwhile.
    """
    layers: dict[tuple[str, ...], list[nn.Parameter]] = {}
    for name, weights in model.named_parameters():
        layers.setdefault(tuple(name.split(".")[:2]), []).append(weights)
    copies: dict[nn.Parameter, torch.Tensor] = {}
    for owned in layers.values():
        copies.update(zip(owned, Copies.apply(dtype, *owned), strict=True))
    return copies


class Copies(torch.autograd.Function):
    """Converts tensors to another dtype, and their gradients back."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.dtype = weights[0].dtype
        ctx.set_materialize_grads(False)  # gradients of unused parameters stay None
        return _convert(dtype, weights)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        copies = iter(_convert(ctx.dtype, [gradient for gradient in gradients if gradient is not None]))
        return None, *(None if gradient is None else next(copies) for gradient in gradients)


def _convert(dtype: torch.dtype, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    copies = tuple(torch.empty_like(tensor, dtype=dtype) for tensor in tensors)
    if copies:
        torch._foreach_copy_(copies, [*tensors])
    return copies


def _refresh_weight_lists(recurrent: list[nn.RNNBase]) -> None:
    """Update the lists that torch's recurrent layers keep of their weights."""
    for part in recurrent:
        part._flat_weights = [getattr(part, name) for name in part._flat_weights_names]
