"""Batch normalisation over valid frames only (Ioffe & Szegedy 2015; Ambroszczyk2019 §2.3.1).

In training on a GPU, batch norm and clipping would cause most of a step's memory traffic. They are therefore fused into
a few passes over memory, by the Triton kernels in fused_kernels.py.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import library, nn

from asr_ablations.native import operations as native
from asr_ablations.tools.checks import number
from asr_ablations.tools.masks import valid_frames
from asr_ablations.tools.matrix_products import trusted

Reduce = Callable[[torch.Tensor], torch.Tensor]
"""Adds up a vector (N,) over all processes that share batch statistics."""

SCHEMAS = {
    # returns mean and sum of squared deviations (2, D) over the valid rows of x (rows, D); 0 if no row is valid
    "norm_moments": "(Tensor x, Tensor lengths, int frames, int inner) -> Tensor",
    # returns x, normalised, scaled by weight, shifted by bias, and clipped to low..high; padding becomes 0
    "norm_apply": "(Tensor x, Tensor lengths, Tensor mean, Tensor variance, Tensor weight, Tensor bias, "
    "int frames, int inner, float epsilon, float low, float high) -> Tensor",
    # returns the gradients (2, D) of bias and weight: the sum over valid rows of the unclipped output's gradient, and
    # the sum of this gradient times the normalised x
    "norm_gradient_sums": "(Tensor gradient, Tensor x, Tensor lengths, Tensor mean, Tensor variance, Tensor weight, "
    "Tensor bias, int frames, int inner, float epsilon, float low, float high) -> Tensor",
    # returns the gradient of x; means: result of norm_gradient_sums, divided by the number of valid rows
    "norm_gradient": "(Tensor gradient, Tensor x, Tensor lengths, Tensor mean, Tensor variance, Tensor weight, "
    "Tensor bias, Tensor means, int frames, int inner, float epsilon, float low, float high) -> Tensor",
}
LIBRARY = library.Library("asr_ablations", "DEF")
for _name, _schema in SCHEMAS.items():
    LIBRARY.define(_name + _schema)
for _name in ("norm_apply", "norm_gradient"):
    LIBRARY.impl(_name, lambda x, *_: torch.empty_like(x), "Meta")
for _name in ("norm_moments", "norm_gradient_sums"):
    LIBRARY.impl(_name, lambda x, *_: x.new_empty(2, x.shape[-1], dtype=torch.float32), "Meta")
operations = torch.ops.asr_ablations


def local(sums: torch.Tensor) -> torch.Tensor:
    """Return the sums unchanged. This is the `Reduce` of a process that shares no statistics."""
    return sums


def at_least(count: float | torch.Tensor, least: int) -> float | torch.Tensor:
    return count.clamp(min=least) if isinstance(count, torch.Tensor) else max(count, float(least))


class BatchNorm(nn.Module):
    """Normalises each channel of x (B, T, …, D) over all valid positions, and sets padding to 0.

    frame: shape (…, D) of a frame of x. reduce: function that adds up sums over the processes that share statistics
    """

    running_mean: torch.Tensor
    running_variance: torch.Tensor

    def __init__(self, frame: Sequence[int], *, momentum: float, epsilon: float, reduce: Reduce = local) -> None:
        super().__init__()
        size = frame[-1]
        self.momentum = float(number("norm.momentum", momentum, above=0, most=1))
        self.epsilon = float(number("norm.epsilon", epsilon, least=0))
        self.reduce = reduce
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_variance", torch.ones(size))

    def forward(
        self, x: torch.Tensor, lengths: torch.Tensor, low: float = -math.inf, high: float = math.inf
    ) -> torch.Tensor:
        if not self.fuses(x):
            assert math.isinf(low), "only fused operations clip"
            return self.normalise_masked(x, lengths)
        normalise = self.normalise_valid if x.device.type == "cpu" else self.normalise_fused
        return normalise(x, lengths, low, high)

    def normalise_masked(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Normalise with plain PyTorch operations, which support any device and dtype, in training and evaluation."""
        mask = valid_frames(lengths, x.shape[1], x.device).view(x.shape[:2] + (1,) * (x.dim() - 2))
        if not self.training:
            scale = self.weight * (self.running_variance + self.epsilon).rsqrt()
            return ((x.float() - self.running_mean) * scale + self.bias).to(x.dtype) * mask
        centred, variance = self._centre(x.float() * mask, mask, lengths.sum() * x[0, 0, ..., 0].numel())
        scale = self.weight * (variance + self.epsilon).rsqrt()
        return (centred * scale + self.bias * mask).to(x.dtype)

    def fuses(self, x: torch.Tensor) -> bool:
        """Return whether `forward` can also clip its output to low..high, which is possible only in training.

        On a CPU, clipping also requires float32 weights and statistics that are not shared between processes.
        """
        if x.device.type == "cpu":
            return self.training and self.reduce is local and self.weight.dtype == torch.float32
        return self.training and usable(x.device.type)

    def normalise_valid(self, x: torch.Tensor, lengths: torch.Tensor, low: float, high: float) -> torch.Tensor:
        """Normalise and clip to low..high in training on a CPU, with the native library if it is available."""
        few = int(lengths.sum()) * x[0, 0, ..., 0].numel() < 2  # too few positions for a variance
        if few or not native.usable(values := x.float(), self.weight, self.bias):
            return self.normalise_masked(x, lengths).clamp(low, high)
        bounds: dict[str, float] = {"low": low, "high": high, "momentum": self.momentum, "epsilon": self.epsilon}
        running = self.running_mean, self.running_variance
        return native.batch_norm(values, lengths, self.weight, self.bias, running, **bounds).to(x.dtype)

    def normalise_fused(self, x: torch.Tensor, lengths: torch.Tensor, low: float, high: float) -> torch.Tensor:
        """Normalise and clip to low..high in training on a GPU, in 5 passes over x, not 30. Requires low ≤ 0 ≤ high."""
        inner = x[0, 0, ..., 0].numel()
        positions = float(lengths.sum()) * inner
        rows, on_device = x.reshape(-1, x.shape[-1]), lengths.to(x.device, non_blocking=True)
        with torch.no_grad():
            mean, squares = operations.norm_moments(rows, on_device, x.shape[1], inner).unbind()
            count: float | torch.Tensor = positions
            if self.reduce is not local:
                sums = self.reduce(torch.cat([mean * positions, mean.new_full((1,), positions)]))
                count, whole = sums[-1:], sums[:-1] / sums[-1:].clamp(min=1)
                squares = self.reduce(squares + positions * (mean - whole).square())
                mean = whole
            momentum = self.momentum * (count > 0)  # if no frame is valid, nothing changes
            self.running_mean.lerp_(mean, momentum)
            self.running_variance.lerp_(squares / at_least(count - 1, 1), momentum)
            variance = squares / (count := at_least(count, 1))
        options = (x.shape[1], inner, self.epsilon, low, high)
        tensors = (rows, self.weight, self.bias, on_device, mean, variance)
        return Normalise.apply(*tensors, count, self.reduce, options).view(x.shape)

    def _centre(
        self, values: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return `values` (B, T, …, D) minus their mean, and their variance (D,). Update the running statistics."""
        dimensions = tuple(range(values.dim() - 1))
        counted = positions.to(values, non_blocking=True)[None]
        sums, count = self.reduce(torch.cat([values.sum(dimensions), counted])).split([values.shape[-1], 1])
        mean = sums / count.clamp(min=1)
        centred = (values - mean) * mask
        squares = self.reduce(centred.square().sum(dimensions))
        with torch.no_grad():
            momentum = self.momentum * (count > 0)  # if no frame is valid, nothing changes
            unbiased = squares / (count - 1).clamp(min=1)
            self.running_mean.copy_(self.running_mean.float().lerp(mean, momentum))
            self.running_variance.copy_(self.running_variance.float().lerp(unbiased, momentum))
        return centred, squares / count.clamp(min=1)


class Normalise(torch.autograd.Function):
    """Normalises and clips x (rows, D) with given statistics. The gradient accounts for their dependence on x.

    For the backward pass, x is stored in its original precision. All other stored tensors are small.

    - reduce: adds up gradient sums over the processes that share statistics
    - count: number of valid rows in all processes that share statistics, at least 1
    - options: frames, inner, epsilon, low and high, in this order
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
        reduce: Reduce,
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
        means = ctx.reduce(sums.flatten()).view_as(sums) / ctx.count
        rows = operations.norm_gradient(gradient, *tensors, means, *ctx.options)
        return rows, sums[1].to(weight.dtype), sums[0].to(bias.dtype), *[None] * 6


@cache
def usable(device: str) -> bool:
    """Return whether the fused operations can be used on a device type. On CUDA, they must match plain operations.

    If Triton or a C compiler is missing, the slower plain operations are used instead.
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
    """Return the largest relative difference between fused operations on the device and plain operations on a CPU."""
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
    y = Normalise.apply(*leaves, lengths, mean, squares / count, count, local, options)
    results = [mean, squares / count, y, *torch.autograd.grad((y * by_y.to(device)).sum(), leaves)]
    pairs = zip(results, expected, strict=True)
    return max(float(((result.cpu() - value).abs().max() / value.abs().max()).detach()) for result, value in pairs)
