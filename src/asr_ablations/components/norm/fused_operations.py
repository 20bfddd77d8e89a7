"""Batch norm over valid rows in four operations that each read or write a tensor once: their names, shapes, references.

torch chooses by the device: on CUDA the kernels of fused_kernels.py, on a CPU the references here, on meta the shapes.
x and gradient: (rows, D), contiguous, where rows are all positions of B utterances of `frames` frames with `inner`
positions each. lengths: (B,) in frames, on the device of x. Everything but x, y and their gradients is float32.
"""

from collections.abc import Callable

import torch
from torch import library

SCHEMAS = {
    "norm_moments": "(Tensor x, Tensor lengths, int frames, int inner) -> Tensor",
    "norm_apply": "(Tensor x, Tensor lengths, Tensor mean, Tensor variance, Tensor weight, Tensor bias, "
    "int frames, int inner, float epsilon, float low, float high) -> Tensor",
    "norm_gradient_sums": "(Tensor gradient, Tensor x, Tensor lengths, Tensor mean, Tensor variance, Tensor weight, "
    "Tensor bias, int frames, int inner, float epsilon, float low, float high) -> Tensor",
    "norm_gradient": "(Tensor gradient, Tensor x, Tensor lengths, Tensor mean, Tensor variance, Tensor weight, "
    "Tensor bias, Tensor means, int frames, int inner, float epsilon, float low, float high) -> Tensor",
}


def valid_rows(rows: int, lengths: torch.Tensor, frames: int, inner: int) -> torch.Tensor:
    """Boolean (rows, 1)."""
    frame = torch.arange(rows, device=lengths.device) // inner % max(1, frames)
    return (frame < lengths.repeat_interleave(frames * inner, output_size=rows))[:, None]


def moments(x: torch.Tensor, lengths: torch.Tensor, frames: int, inner: int) -> torch.Tensor:
    """Mean and sum of squared deviations (2, D) over valid rows; 0 where there is none."""
    valid = valid_rows(len(x), lengths, frames, inner)
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
    """Normalised, scaled, moved and clipped to low..high; padding is 0."""
    y = (x.float() - mean) * (variance + epsilon).rsqrt() * weight.float() + bias.float()
    return (y.clamp(low, high) * valid_rows(len(x), lengths, frames, inner)).to(x.dtype)


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
    """Sums (2, D) over valid rows of the gradient that the clipping lets through, alone and times the normalised x: the
    gradients of bias and weight.
    """
    normalised = (x.float() - mean) * (variance + epsilon).rsqrt()
    y = normalised * weight.float() + bias.float()
    passed = gradient.float() * ((y >= low) & (y <= high)) * valid_rows(len(x), lengths, frames, inner)
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
    """The gradient of x (rows, D). means: the sums of gradient_sums over the number of positions."""
    deviation = (variance + epsilon).rsqrt()
    normalised = (x.float() - mean) * deviation
    y = normalised * weight.float() + bias.float()
    passed = gradient.float() * ((y >= low) & (y <= high))
    rows = (passed - means[0] - normalised * means[1]) * deviation * weight.float()
    return (rows * valid_rows(len(x), lengths, frames, inner)).to(x.dtype)


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
