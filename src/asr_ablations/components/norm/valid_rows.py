"""Batch norm and clipping on a CPU: torch's own of the valid rows alone, which is two thirds fewer passes over memory
than with masks around each operation.
"""

import math
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable


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
