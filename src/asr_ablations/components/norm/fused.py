"""Batch norm and clipping in as few passes over memory as there can be: on a GPU they are most of a step's traffic."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch

from asr_ablations.components.norm import fused_operations
from asr_ablations.tools.own_kernels import trusted

Reduce = Callable[[torch.Tensor], torch.Tensor]
operations = torch.ops.asr_ablations


class Normalise(torch.autograd.Function):
    """x (rows, D) with given statistics → normalised, clipped rows, and the gradient through the statistics, too.

    Keeps x alone for the backward pass, as it came: in 16 bits where it is in 16. reduce: sums over all processes that
    share the statistics, or None; count: their positions, at least 1. options: frames, inner, epsilon, low, high.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        lengths: torch.Tensor,
        mean: torch.Tensor,
        variance: torch.Tensor,
        count: float | torch.Tensor,
        reduce: Reduce | None,
        options: tuple[Any, ...],
    ) -> torch.Tensor:
        ctx.save_for_backward(x, lengths, mean, variance, weight, bias)
        ctx.count, ctx.reduce, ctx.options = count, reduce, options
        return operations.norm_apply(x, lengths, mean, variance, weight, bias, *options)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        tensors, gradient = ctx.saved_tensors, gradient.contiguous()
        *_, weight, bias = tensors
        sums = operations.norm_gradient_sums(gradient, *tensors, *ctx.options)
        shared = sums if ctx.reduce is None else ctx.reduce(sums.flatten()).view_as(sums)
        rows = operations.norm_gradient(gradient, *tensors, shared / ctx.count, *ctx.options)
        return rows, sums[1].to(weight.dtype), sums[0].to(bias.dtype), *[None] * 6


@cache
def usable(device: str) -> bool:
    """Whether the operations can be used on this type of device: on CUDA once they have given the references' numbers
    there. A machine without Triton or a compiler keeps the plain operations, which are slower.
    """
    if device == "meta":
        return True
    return device == "cuda" and trusted(
        _kernels, fused_operations.LIBRARY, lambda: agreement(device), "batch norm runs unfused, about a sixth slower"
    )


def _kernels() -> Mapping[str, Any]:
    from asr_ablations.components.norm.fused_kernels import KERNELS

    return KERNELS


def agreement(device: str) -> float:
    """The largest difference between the operations on the device and the references on a CPU, over a small batch."""
    generator = torch.Generator().manual_seed(1)
    frames, inner, width = 37, 3, 40
    x, gradient = torch.randn(2, 4 * frames * inner, width, generator=generator)
    lengths = torch.tensor([37, 0, 20, 1])
    variance, weight = torch.rand(2, width, generator=generator) + 0.5
    mean, bias = torch.randn(2, width, generator=generator)
    means, options = torch.randn(2, width, generator=generator), (frames, inner, 1e-5, -0.5, 1.0)
    rest = (mean, variance, weight, bias)
    calls: dict[str, tuple[Any, ...]] = {
        "norm_moments": (x, lengths, frames, inner),
        "norm_apply": (x, lengths, *rest, *options),
        "norm_gradient_sums": (gradient, x, lengths, *rest, *options),
        "norm_gradient": (gradient, x, lengths, *rest, means, *options),
    }
    differences = []
    for name, arguments in calls.items():
        moved = [value.to(device) if isinstance(value, torch.Tensor) else value for value in arguments]
        result = getattr(operations, name)(*moved).cpu()
        expected = fused_operations.REFERENCES[name](*arguments)
        differences.append(float((result - expected).abs().max() / expected.abs().max()))
    return max(differences)
