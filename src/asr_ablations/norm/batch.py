"""Batch normalisation over valid frames only (Ioffe & Szegedy 2015; papers/003 §2.3.1)."""

import torch
from torch import nn

from asr_ablations.masks import valid_frames


class BatchNorm(nn.Module):
    """(x (B, T, …, D), lengths (B,)) → same shape, each of the D channels over all valid positions; padding is 0."""

    running_mean: torch.Tensor
    running_variance: torch.Tensor

    def __init__(self, size: int, *, momentum: float, epsilon: float) -> None:
        super().__init__()
        self.momentum, self.epsilon = momentum, epsilon
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_variance", torch.ones(size))

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        mask = valid_frames(lengths, x.shape[1], x.device).view(x.shape[:2] + (1,) * (x.dim() - 2))
        if not self.training:
            scale = self.weight * (self.running_variance + self.epsilon).rsqrt()
            return ((x.float() - self.running_mean) * scale + self.bias).to(x.dtype) * mask
        count = (lengths.sum() * x[0, 0, ..., 0].numel()).clamp(min=1).to(x.device, non_blocking=True)
        dimensions = tuple(range(x.dim() - 1))
        values = x.float() * mask
        mean = values.sum(dimensions) / count
        centred = (values - mean) * mask
        variance = centred.square().sum(dimensions) / count
        momentum = self.momentum if lengths.any() else 0.0  # no frame, no news
        with torch.no_grad():
            unbiased = variance * (count / (count - 1).clamp(min=1))
            self.running_mean.lerp_(mean, momentum)
            self.running_variance.lerp_(unbiased, momentum)
        scale = self.weight * (variance + self.epsilon).rsqrt()
        return (centred * scale + self.bias * mask).to(x.dtype)
