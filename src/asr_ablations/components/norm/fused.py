"""Batch norm and clipping in few passes over memory: on a GPU they cause most of a step's traffic."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import library

from asr_ablations.tools.matrix_products import trusted

SCHEMAS = {
    # mean and sum of squared deviations (2, D) over the valid rows of x (rows, D); 0 without valid rows
    "norm_moments": "(Tensor x, Tensor lengths, int frames, int inner) -> Tensor",
    # x normalised, with weight and bias, and clipped to low..high; padding becomes 0
    "norm_apply": "(Tensor x, Tensor lengths, Tensor mean, Tensor variance, Tensor weight, Tensor bias, "
    "int frames, int inner, float epsilon, float low, float high) -> Tensor",
    # gradients (2, D) of bias and weight: sums over valid rows of the gradient that clipping passes, alone and times
    # the normalised x
    "norm_gradient_sums": "(Tensor gradient, Tensor x, Tensor lengths, Tensor mean, Tensor variance, Tensor weight, "
    "Tensor bias, int frames, int inner, float epsilon, float low, float high) -> Tensor",
    # the gradient of x; means: the result of norm_gradient_sums divided by the number of positions
    "norm_gradient": "(Tensor gradient, Tensor x, Tensor lengths, Tensor mean, Tensor variance, Tensor weight, "
    "Tensor bias, Tensor means, int frames, int inner, float epsilon, float low, float high) -> Tensor",
}


def _pair(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(2, x.shape[-1], dtype=torch.float32)


LIBRARY = library.Library("asr_ablations", "DEF")
_SHAPES = {
    "norm_moments": lambda x, *_: _pair(x),
    "norm_apply": lambda x, *_: torch.empty_like(x),
    "norm_gradient_sums": lambda gradient, x, *_: _pair(x),
    "norm_gradient": lambda gradient, x, *_: torch.empty_like(x),
}
for _name, _schema in SCHEMAS.items():
    LIBRARY.define(_name + _schema)
    LIBRARY.impl(_name, _SHAPES[_name], "Meta")


Reduce = Callable[[torch.Tensor], torch.Tensor]
operations = torch.ops.asr_ablations


class Normalise(torch.autograd.Function):
    """Normalises and clips x (rows, D) with given statistics; gradients also flow through the statistics.

    The backward pass needs only x, stored in its own precision.

    - reduce: sums over all processes that share the statistics, or None
    - count: the positions of these processes, at least 1
    - options: frames, inner, epsilon, low, high
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
    """Return whether the operations can be used on a type of device: on CUDA, if they match the references there.

    A machine without Triton or a compiler uses the plain operations, which are slower.
    """
    if device == "meta":
        return True
    return device == "cuda" and trusted(
        _kernels, LIBRARY, lambda: largest_difference(device), "batch norm runs unfused, about a sixth slower"
    )


def _kernels() -> Mapping[str, Any]:
    from asr_ablations.components.norm.fused_kernels import KERNELS

    return KERNELS


def largest_difference(device: str) -> float:
    """Compute the largest relative difference of a step on the device from plain operations on a CPU."""
    generator = torch.Generator().manual_seed(1)
    batch, frames, inner, width, epsilon, low, high = 4, 37, 3, 40, 1e-5, -0.5, 1.0
    x, by_y = torch.randn(2, batch * frames * inner, width, generator=generator)
    weight, bias = torch.rand(2, width, generator=generator) + 0.5
    lengths = torch.tensor([37, 0, 20, 1])
    leaves = [value.requires_grad_() for value in (x, weight, bias)]

    valid = (torch.arange(frames) < lengths[:, None]).repeat_interleave(inner)  # (rows,)
    variance, mean = torch.var_mean(x[valid], 0, correction=0)
    y = ((x - mean) * (variance + epsilon).rsqrt() * weight + bias).clamp(low, high) * valid[:, None]
    expected = [mean, variance, y, *torch.autograd.grad((y * by_y).sum(), leaves)]

    leaves = [value.detach().to(device).requires_grad_() for value in leaves]
    lengths, options = lengths.to(device), (frames, inner, epsilon, low, high)
    count = float(lengths.sum()) * inner
    mean, squares = operations.norm_moments(leaves[0].detach(), lengths, frames, inner).unbind()
    y = Normalise.apply(*leaves, lengths, mean, squares / count, count, None, options)
    results = [mean, squares / count, y, *torch.autograd.grad((y * by_y.to(device)).sum(), leaves)]
    pairs = zip(results, expected, strict=True)
    return max(float(((result.cpu() - value).abs().max() / value.abs().max()).detach()) for result, value in pairs)
