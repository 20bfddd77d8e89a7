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
    """Normalises x (B, T, …, D) over valid positions, clips it to low..high, and sets padding to 0.

    Needs two or more valid positions. Updates the running mean and variance (D,). options: momentum, ε, low, high.
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
        rows = _gather_valid(x, frames)
        normal, *saved = torch.native_batch_norm(_as_image(rows), weight, bias, mean, variance, True, momentum, epsilon)
        normal = _as_rows(normal)
        clips = not (math.isinf(low) and math.isinf(high))
        ctx.save_for_backward(rows, weight, mean, variance, *saved, *([normal] if clips else []))
        ctx.frames, ctx.options, ctx.shape = frames, options, x.shape
        return _scatter_valid(normal.clamp(low, high) if clips else normal, frames, x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, weight, mean, variance, saved_mean, saved_deviation, *clipped = ctx.saved_tensors
        _, epsilon, low, high = ctx.options
        gradient = _gather_valid(gradients[0], ctx.frames)
        for normal in clipped:
            below, above = (
                float(np.nextafter(np.float32(bound), np.float32(way * np.inf)))
                for bound, way in ((low, -1), (high, 1))
            )
            # passes gradients between the two bounds, in a 25th of the time of torch.where
            gradient = torch.ops.aten.hardtanh_backward(gradient, normal, below, above)
        by_image, by_weight, by_bias = torch.ops.aten.native_batch_norm_backward(
            _as_image(gradient),
            _as_image(rows),
            weight,
            mean,
            variance,
            saved_mean,
            saved_deviation,
            True,
            epsilon,
            [True] * 3,
        )
        return _scatter_valid(_as_rows(by_image), ctx.frames, ctx.shape), by_weight, by_bias, None, None, None, None


def _gather_valid(x: torch.Tensor, frames: list[int]) -> torch.Tensor:
    """Gather the valid rows (positions, D) of x (B, T, …, D)."""
    parts = [utterance[:length].reshape(-1, x.shape[-1]) for utterance, length in zip(x, frames, strict=True)]
    return torch.cat(parts)


def _scatter_valid(rows: torch.Tensor, frames: list[int], shape: torch.Size) -> torch.Tensor:
    """Invert _gather_valid, with 0 elsewhere."""
    x, inner = rows.new_zeros(shape), math.prod(shape[2:-1])
    for utterance, length, part in zip(x, frames, rows.split([inner * length for length in frames]), strict=True):
        utterance[:length] = part.view(length, *shape[2:])
    return x


def _as_image(rows: torch.Tensor) -> torch.Tensor:
    """View rows (N, D) as an image of N pixels and D channels, channels last."""
    return rows.T[None, :, :, None]


def _as_rows(image: torch.Tensor) -> torch.Tensor:
    return image[0, :, :, 0].T


def local(sums: torch.Tensor) -> torch.Tensor:
    """Return the sums of this process alone."""
    return sums


def at_least(count: float | torch.Tensor, least: int) -> float | torch.Tensor:
    return count.clamp(min=least) if isinstance(count, torch.Tensor) else max(count, float(least))


class BatchNorm(nn.Module):
    """Normalises each channel of x (B, T, …, D) over all positions within lengths (B,); sets padding to 0.

    frame: the shape of a frame of x, (…, D). reduce: turns the sums (N,) of this process into the sums (N,) over all
    processes that share their statistics.
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
            assert math.isinf(low), "only if it fuses"
            return self.normalise_masked(x, lengths)
        normalise = self.normalise_valid if x.device.type == "cpu" else self.normalise_fused
        return normalise(x, lengths, low, high)

    def normalise_masked(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Compute forward by plain operations, for any device and type, also in evaluation."""
        mask = valid_frames(lengths, x.shape[1], x.device).view(x.shape[:2] + (1,) * (x.dim() - 2))
        if not self.training:
            scale = self.weight * (self.running_variance + self.epsilon).rsqrt()
            return ((x.float() - self.running_mean) * scale + self.bias).to(x.dtype) * mask
        centred, variance = self._centre(x.float() * mask, mask, lengths.sum() * x[0, 0, ..., 0].numel())
        scale = self.weight * (variance + self.epsilon).rsqrt()
        return (centred * scale + self.bias * mask).to(x.dtype)

    def fuses(self, x: torch.Tensor) -> bool:
        """Return whether forward also clips to low..high in one operation, which it only does in training.

        On a CPU it also needs weights in float32 and unshared statistics.
        """
        if x.device.type == "cpu":
            return self.training and self.reduce is local and self.weight.dtype == torch.float32
        return self.training and usable(x.device.type)

    def normalise_valid(self, x: torch.Tensor, lengths: torch.Tensor, low: float, high: float) -> torch.Tensor:
        """Compute forward on a CPU in training, clipped to low..high."""
        frames = lengths.tolist()
        if sum(frames) * x[0, 0, ..., 0].numel() < 2:  # too few for a variance
            return self.normalise_masked(x, lengths).clamp(low, high)
        if native.usable(values := x.float(), self.weight, self.bias):
            bounds: dict[str, float] = {"low": low, "high": high, "momentum": self.momentum, "epsilon": self.epsilon}
            running = self.running_mean, self.running_variance
            return native.batch_norm(values, lengths, self.weight, self.bias, running, **bounds).to(x.dtype)
        buffers, options = (self.running_mean, self.running_variance), (self.momentum, self.epsilon, low, high)
        return NormaliseValid.apply(x.float(), self.weight, self.bias, *buffers, frames, options).to(x.dtype)

    def normalise_fused(self, x: torch.Tensor, lengths: torch.Tensor, low: float, high: float) -> torch.Tensor:
        """Compute forward, clipped to low..high, which must enclose 0: on a GPU in 5 passes over x instead of 30."""
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
            self._update_running(mean, squares, count)
            at_least_one = at_least(count, 1)
            variance = squares / at_least_one
        reduce = None if self.reduce is local else self.reduce
        fused = (x.shape[1], inner, self.epsilon, low, high)
        return Normalise.apply(
            rows, self.weight, self.bias, on_device, mean, variance, at_least_one, reduce, fused
        ).view(x.shape)

    def _update_running(self, mean: torch.Tensor, squares: torch.Tensor, count: float | torch.Tensor) -> None:
        momentum = self.momentum * (count > 0)  # no change without a valid frame
        self.running_mean.lerp_(mean, momentum)
        self.running_variance.lerp_(squares / at_least(count - 1, 1), momentum)

    def _centre(
        self, values: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return values (B, T, …, D) minus their mean, and their variance (D,); update the running statistics."""
        dimensions = tuple(range(values.dim() - 1))
        counted = positions.to(values, non_blocking=True)[None]
        sums, count = self.reduce(torch.cat([values.sum(dimensions), counted])).split([values.shape[-1], 1])
        mean = sums / count.clamp(min=1)
        centred = (values - mean) * mask
        squares = self.reduce(centred.square().sum(dimensions))
        with torch.no_grad():
            momentum = self.momentum * (count > 0)  # no change without a valid frame
            unbiased = squares / (count - 1).clamp(min=1)
            self.running_mean.copy_(self.running_mean.float().lerp(mean, momentum))
            self.running_variance.copy_(self.running_variance.float().lerp(unbiased, momentum))
        return centred, squares / count.clamp(min=1)
