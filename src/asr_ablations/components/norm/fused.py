"""Batch norm and clipping in few passes over memory: on a GPU they cause most of a step's traffic."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import library

from asr_ablations.tools.matrix_products import trusted

SCHEMAS = {
    "norm_moments": "(Tensor x, Tensor lengths, int frames, int inner) -> Tensor",
    "norm_apply": "(Tensor x, Tensor lengths, Tensor mean, Tensor variance, Tensor weight, Tensor bias, "
    "int frames, int inner, float epsilon, float low, float high) -> Tensor",
    "norm_gradient_sums": "(Tensor gradient, Tensor x, Tensor lengths, Tensor mean, Tensor variance, Tensor weight, "
    "Tensor bias, int frames, int inner, float epsilon, float low, float high) -> Tensor",
    "norm_gradient": "(Tensor gradient, Tensor x, Tensor lengths, Tensor mean, Tensor variance, Tensor weight, "
    "Tensor bias, Tensor means, int frames, int inner, float epsilon, float low, float high) -> Tensor",
}


def mark_valid(rows: int, lengths: torch.Tensor, frames: int, inner: int) -> torch.Tensor:
    """Mark valid rows: Boolean (rows, 1)."""
    frame = torch.arange(rows, device=lengths.device) // inner % max(1, frames)
    return (frame < lengths.repeat_interleave(frames * inner, output_size=rows))[:, None]


def moments(x: torch.Tensor, lengths: torch.Tensor, frames: int, inner: int) -> torch.Tensor:
    """Compute mean and sum of squared deviations (2, D) over valid rows; 0 without valid rows."""
    valid = mark_valid(len(x), lengths, frames, inner)
    values = x.float() * valid
    mean = values.sum(0) / valid.sum().clamp(min=1)
    return torch.stack([mean, ((values - mean) * valid).square().sum(0)])


def apply(
    x: torch.Tensor,
    lengths: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    frames: int,
    inner: int,
    epsilon: float,
    low: float,
    high: float,
) -> torch.Tensor:
    """Normalise x (rows, D), apply weight and bias, and clip to low..high; padding becomes 0."""
    y = (x.float() - mean) * (variance + epsilon).rsqrt() * weight.float() + bias.float()
    return (y.clamp(low, high) * mark_valid(len(x), lengths, frames, inner)).to(x.dtype)


def gradient_sums(
    gradient: torch.Tensor,
    x: torch.Tensor,
    lengths: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    frames: int,
    inner: int,
    epsilon: float,
    low: float,
    high: float,
) -> torch.Tensor:
    """Compute the gradients (2, D) of bias and weight. These are sums over valid rows of the gradient that the clipping
    passes, alone and times the normalised x.
    """
    normalised = (x.float() - mean) * (variance + epsilon).rsqrt()
    y = normalised * weight.float() + bias.float()
    passed = gradient.float() * ((y >= low) & (y <= high)) * mark_valid(len(x), lengths, frames, inner)
    return torch.stack([passed.sum(0), (passed * normalised).sum(0)])


def input_gradient(
    gradient: torch.Tensor,
    x: torch.Tensor,
    lengths: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    means: torch.Tensor,
    frames: int,
    inner: int,
    epsilon: float,
    low: float,
    high: float,
) -> torch.Tensor:
    """Compute the gradient of x (rows, D). means: the result of gradient_sums divided by the number of positions."""
    deviation = (variance + epsilon).rsqrt()
    normalised = (x.float() - mean) * deviation
    y = normalised * weight.float() + bias.float()
    passed = gradient.float() * ((y >= low) & (y <= high))
    rows = (passed - means[0] - normalised * means[1]) * deviation * weight.float()
    return (rows * mark_valid(len(x), lengths, frames, inner)).to(x.dtype)


def _pair(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(2, x.shape[-1], dtype=torch.float32)


LIBRARY = library.Library("asr_ablations", "DEF")
REFERENCES: dict[str, Callable[..., torch.Tensor]] = dict(
    zip(SCHEMAS, (moments, apply, gradient_sums, input_gradient), strict=True)
)
_SHAPES = {
    "norm_moments": lambda x, *_: _pair(x),
    "norm_apply": lambda x, *_: torch.empty_like(x),
    "norm_gradient_sums": lambda gradient, x, *_: _pair(x),
    "norm_gradient": lambda gradient, x, *_: torch.empty_like(x),
}
for _name, _schema in SCHEMAS.items():
    LIBRARY.define(_name + _schema)
    LIBRARY.impl(_name, REFERENCES[_name], "CPU")
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
    """Compute the largest relative difference of the operations on the device from the references on a CPU."""
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
        expected = REFERENCES[name](*arguments)
        differences.append(float((result - expected).abs().max() / expected.abs().max()))
    return max(differences)
