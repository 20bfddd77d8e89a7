"""A model in 16 bits over master weights in 32 (Ambroszczyk2019 §2.1; Micikevicius et al. 2018, §3.1)."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

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
    copies = _make_copies(dtype, model)
    try:
        for part, name, weights in owned:
            part._parameters[name] = copies[weights]  # type: ignore[assignment]
        _refresh_weight_lists(recurrent)
        yield
    finally:
        for part, name, weights in owned:
            part._parameters[name] = weights
        _refresh_weight_lists(recurrent)


def sixteen_bit_copies(model: nn.Module) -> AbstractContextManager[None]:
    """Copies in float16 on a GPU, in bfloat16 on a CPU."""
    return copies_in(torch.float16 if next(model.parameters()).is_cuda else torch.bfloat16, model)


def _make_copies(dtype: torch.dtype, model: nn.Module) -> dict[nn.Parameter, torch.Tensor]:
    """The copy of each parameter. A layer's are made together, and so are their gradients: in one launch, after the
    layer's backward pass, so that ranks can exchange them meanwhile.
    """
    layers: dict[tuple[str, ...], list[nn.Parameter]] = {}
    for name, weights in model.named_parameters():
        layers.setdefault(tuple(name.split(".")[:2]), []).append(weights)
    copies: dict[nn.Parameter, torch.Tensor] = {}
    for owned in layers.values():
        copies.update(zip(owned, Copies.apply(dtype, *owned), strict=True))
    return copies


class Copies(torch.autograd.Function):
    """Tensors in another type, and their gradients in that of the tensors."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.dtypes = [tensor.dtype for tensor in weights]
        ctx.set_materialize_grads(False)  # what a forward pass did not use has no gradient, as ever
        return _convert([dtype] * len(weights), weights)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        present = [gradient for gradient in gradients if gradient is not None]
        dtypes = [dtype for dtype, gradient in zip(ctx.dtypes, gradients, strict=True) if gradient is not None]
        copied = iter(_convert(dtypes, present))
        return None, *(None if gradient is None else next(copied) for gradient in gradients)


def _convert(dtypes: Sequence[torch.dtype], tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    copies = tuple(torch.empty_like(tensor, dtype=dtype) for dtype, tensor in zip(dtypes, tensors, strict=True))
    if copies:
        torch._foreach_copy_(copies, [*tensors])
    return copies


def _refresh_weight_lists(recurrent: list[nn.RNNBase]) -> None:
    """torch's recurrent layers keep a list of their weights beside them."""
    for part in recurrent:
        part._flat_weights = [getattr(part, name) for name in part._flat_weights_names]
