"""What a model begins with: convolutions over (B, T, F, C), frames past a length 0 again afterwards."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from asr_ablations.tools.masks import valid_frames

Norm = Callable[[Sequence[int]], nn.Module]
CEILING = 20.0
"""The clipped ReLU's upper bound (papers/003 §1.2)."""


class Convolution(nn.Conv2d):
    """nn.Conv2d in channels_last, on a CPU 2.5 times as fast forwards; but not where one or two utterances of 32
    channels are trained on: at some sizes, those of model=ds2 among them, oneDNN then takes 80 times as long for the
    gradient of the weights (torch 2.11, AVX2: 8 s).
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        trained = self.in_channels >= 32 and x.device.type == "cpu" and torch.is_grad_enabled()
        if trained and len(x) <= 2:  # asked last: an exported model has batches of any size
            return self._conv_forward(x.contiguous(), self.weight.contiguous(), self.bias)
        return super().forward(x)


class PaddedConvolution(nn.Module):
    """2-D convolution, norm, clipped ReLU: (x (B, T, F, C), lengths (B,)) → the same with `channels`, `bins`.

    Kernel and stride as (frequency, time). Padded by half a kernel: T and F become ceil(size / stride).
    """

    def __init__(
        self, inputs: int, bins: int, *, norm: Norm, channels: int, kernel: Sequence[int], stride: Sequence[int]
    ) -> None:
        super().__init__()
        if kernel[0] % 2 == 0 or kernel[1] % 2 == 0:
            raise ValueError(f"convolution kernel {list(kernel)}: expected odd sizes, which have a middle")
        (frequency, time), self.time_stride = kernel, stride[1]
        self.channels, self.bins = channels, -(-bins // stride[0])
        padding = (time // 2, frequency // 2)
        self.convolve = Convolution(inputs, channels, (time, frequency), (stride[1], stride[0]), padding)
        self.norm = norm([self.bins, channels])

    def output_lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        return (lengths + self.time_stride - 1).div(self.time_stride, rounding_mode="floor")

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.convolve(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return activate(y, self.output_lengths(lengths), self.norm)


class WholeFrameConvolution(nn.Module):
    """1-D convolution of whole frames over time, norm, clipped ReLU: (x (B, T, F, C), lengths (B,)) → `bins` = 1.

    kernel and stride in frames. Nothing is padded: T becomes floor((T - kernel) / stride) + 1, and 0 below a kernel.
    """

    def __init__(self, inputs: int, bins: int, *, norm: Norm, channels: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, stride
        self.channels, self.bins = channels, 1
        self.convolve = nn.Conv1d(inputs * bins, channels, kernel, stride)
        self.norm = norm([1, channels])

    def output_lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        return ((lengths - self.kernel).div(self.stride, rounding_mode="floor") + 1).clamp(min=0)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.convolve(x.flatten(2).transpose(1, 2)).transpose(1, 2)[:, :, None]  # (B, T', 1, channels)
        return activate(y, self.output_lengths(lengths), self.norm)


def activate(y: torch.Tensor, lengths: torch.Tensor, norm: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Norm and clipped ReLU of (B, T, F, C), zeros past the lengths."""
    valid = valid_frames(lengths, y.shape[1], y.device)[..., None, None]
    return norm(y, lengths).clamp(0.0, CEILING) * valid, lengths
