"""Batch normalisation over valid frames only (Ioffe & Szegedy 2015; Ambroszczyk2019 §2.3.1)."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable

from asr_ablations.components.norm.fused import Normalise, operations, usable
from asr_ablations.native import operations as native
from asr_ablations.tools.checks import number
from asr_ablations.tools.masks import valid_frames


class NormaliseValid(torch.autograd.Function):
    """(x (B, T, …, D), weight, bias, running mean and variance (D,), frames of each utterance, momentum, ε, low, high)
    → x normalised over the valid positions and clipped to low..high, 0 elsewhere. Moves the running statistics.

    Two valid positions at least.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        mean: torch.Tensor,
        variance: torch.Tensor,
        frames: list[int],
        options: tuple[float, float, float, float],
    ) -> torch.Tensor:
        momentum, epsilon, low, high = options
        rows = _taken(x, frames)
        normal, *saved = torch.native_batch_norm(_image(rows), weight, bias, mean, variance, True, momentum, epsilon)
        normal = _rows(normal)
        clips = not (math.isinf(low) and math.isinf(high))
        ctx.save_for_backward(rows, weight, mean, variance, *saved, *([normal] if clips else []))
        ctx.frames, ctx.options, ctx.shape = frames, options, x.shape
        return _spread(normal.clamp(low, high) if clips else normal, frames, x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, weight, mean, variance, saved_mean, saved_deviation, *clipped = ctx.saved_tensors
        _, epsilon, low, high = ctx.options
        gradient = _taken(gradients[0], ctx.frames)
        for normal in clipped:
            below, above = (
                float(np.nextafter(np.float32(bound), np.float32(way * np.inf)))
                for bound, way in ((low, -1), (high, 1))
            )
            # it passes what lies between the two; a 25th of the time of torch.where
            gradient = torch.ops.aten.hardtanh_backward(gradient, normal, below, above)
        by_image, by_weight, by_bias = torch.ops.aten.native_batch_norm_backward(
            _image(gradient),
            _image(rows),
            weight,
            mean,
            variance,
            saved_mean,
            saved_deviation,
            True,
            epsilon,
            [True] * 3,
        )
        return _spread(_rows(by_image), ctx.frames, ctx.shape), by_weight, by_bias, None, None, None, None


def _taken(x: torch.Tensor, frames: list[int]) -> torch.Tensor:
    """(B, T, …, D) → the valid (positions, D)."""
    parts = [utterance[:length].reshape(-1, x.shape[-1]) for utterance, length in zip(x, frames, strict=True)]
    return torch.cat(parts)


def _spread(rows: torch.Tensor, frames: list[int], shape: torch.Size) -> torch.Tensor:
    """The inverse of _taken, with 0 elsewhere."""
    x, inner = rows.new_zeros(shape), math.prod(shape[2:-1])
    for utterance, length, part in zip(x, frames, rows.split([inner * length for length in frames]), strict=True):
        utterance[:length] = part.view(length, *shape[2:])
    return x


def _image(rows: torch.Tensor) -> torch.Tensor:
    """(N, D) as an image of N pixels and D channels, channels last."""
    return rows.T[None, :, :, None]


def _rows(image: torch.Tensor) -> torch.Tensor:
    return image[0, :, :, 0].T


def local(sums: torch.Tensor) -> torch.Tensor:
    """The sums of this process alone, as they are."""
    return sums


def at_least(count: float | torch.Tensor, least: int) -> float | torch.Tensor:
    """The larger of both."""
    return count.clamp(min=least) if isinstance(count, torch.Tensor) else max(count, float(least))


class BatchNorm(nn.Module):
    """(x (B, T, …, D), lengths (B,)) → same shape, each of the D channels normalised over all valid positions.

    Padding is 0 afterwards. frame: the shape of a frame of x, (…, D). reduce: from the sums (N,) of this process to the
    sums (N,) over all processes that share their statistics.
    """

    running_mean: torch.Tensor
    running_variance: torch.Tensor

    def __init__(
        self,
        frame: Sequence[int],
        *,
        momentum: float,
        epsilon: float,
        reduce: Callable[[torch.Tensor], torch.Tensor] = local,
    ) -> None:
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
            assert math.isinf(low), "only where it fuses"
            return self.masked(x, lengths)
        return (self.of_valid_rows if x.device.type == "cpu" else self.clipped)(x, lengths, low, high)

    def masked(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """forward in plain operations, for any device and type, in evaluation, too."""
        mask = valid_frames(lengths, x.shape[1], x.device).view(x.shape[:2] + (1,) * (x.dim() - 2))
        if not self.training:
            scale = self.weight * (self.running_variance + self.epsilon).rsqrt()
            return ((x.float() - self.running_mean) * scale + self.bias).to(x.dtype) * mask
        centred, variance = self._centre(x.float() * mask, mask, lengths.sum() * x[0, 0, ..., 0].numel())
        scale = self.weight * (variance + self.epsilon).rsqrt()
        return (centred * scale + self.bias * mask).to(x.dtype)

    def fuses(self, x: torch.Tensor) -> bool:
        """Return whether forward also clips to low..high, in one operation: in training, and on a CPU in a process of
        its own, with weights in float32.
        """
        if x.device.type == "cpu":
            return self.training and self.reduce is local and self.weight.dtype == torch.float32
        return self.training and usable(x.device.type)

    def of_valid_rows(self, x: torch.Tensor, lengths: torch.Tensor, low: float, high: float) -> torch.Tensor:
        """forward and its clipped result on a CPU, in training, as `clipped` is on a GPU."""
        frames = lengths.tolist()
        if sum(frames) * x[0, 0, ..., 0].numel() < 2:  # which have no variance
            return self.masked(x, lengths).clamp(low, high)
        if native.usable(values := x.float(), self.weight, self.bias):
            bounds: dict[str, float] = {"low": low, "high": high, "momentum": self.momentum, "epsilon": self.epsilon}
            running = self.running_mean, self.running_variance
            return native.batch_norm(values, lengths, self.weight, self.bias, running, **bounds).to(x.dtype)
        buffers, options = (self.running_mean, self.running_variance), (self.momentum, self.epsilon, low, high)
        return NormaliseValid.apply(x.float(), self.weight, self.bias, *buffers, frames, options).to(x.dtype)

    def clipped(self, x: torch.Tensor, lengths: torch.Tensor, low: float, high: float) -> torch.Tensor:
        """forward, and its result clipped to low..high, which must have 0 between them: on a GPU five passes over x
        instead of some thirty.
        """
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
            self._move(mean, squares, count)
            at_least_one = at_least(count, 1)
            variance = squares / at_least_one
        reduce = None if self.reduce is local else self.reduce
        fused = (x.shape[1], inner, self.epsilon, low, high)
        return Normalise.apply(
            rows, self.weight, self.bias, on_device, mean, variance, at_least_one, reduce, fused
        ).view(x.shape)

    def _move(self, mean: torch.Tensor, squares: torch.Tensor, count: float | torch.Tensor) -> None:
        """Update the running statistics."""
        momentum = self.momentum * (count > 0)  # without a valid frame they stay
        self.running_mean.lerp_(mean, momentum)
        self.running_variance.lerp_(squares / at_least(count - 1, 1), momentum)

    def _centre(
        self, values: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Values (B, T, …, D) minus their mean, and their variance (D,); padding stays 0. Updates the running
        statistics.
        """
        dimensions = tuple(range(values.dim() - 1))
        counted = positions.to(values, non_blocking=True)[None]
        sums, count = self.reduce(torch.cat([values.sum(dimensions), counted])).split([values.shape[-1], 1])
        mean = sums / count.clamp(min=1)
        centred = (values - mean) * mask
        squares = self.reduce(centred.square().sum(dimensions))
        with torch.no_grad():
            momentum = self.momentum * (count > 0)  # without a valid frame they stay
            unbiased = squares / (count - 1).clamp(min=1)
            self.running_mean.copy_(self.running_mean.float().lerp(mean, momentum))
            self.running_variance.copy_(self.running_variance.float().lerp(unbiased, momentum))
        return centred, squares / count.clamp(min=1)
