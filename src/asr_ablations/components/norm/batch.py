"""Batch normalisation over valid frames only (Ioffe & Szegedy 2015; Ambroszczyk2019 §2.3.1)."""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from asr_ablations.tools.masks import valid_frames


def local(sums: torch.Tensor) -> torch.Tensor:
    """The sums of this process alone, as they are."""
    return sums


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
        self.momentum, self.epsilon, self.reduce = momentum, epsilon, reduce
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_variance", torch.ones(size))

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        mask = valid_frames(lengths, x.shape[1], x.device).view(x.shape[:2] + (1,) * (x.dim() - 2))
        if not self.training:
            scale = self.weight * (self.running_variance + self.epsilon).rsqrt()
            return ((x.float() - self.running_mean) * scale + self.bias).to(x.dtype) * mask
        centred, variance = self._centre(x.float() * mask, mask, lengths.sum() * x[0, 0, ..., 0].numel())
        scale = self.weight * (variance + self.epsilon).rsqrt()
        return (centred * scale + self.bias * mask).to(x.dtype)

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
