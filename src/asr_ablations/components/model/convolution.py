"""Convolutional input layers for tensors (B, T, F, C). Their output is 0 in padding frames."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import torch
from torch import nn

from asr_ablations.components.norm.batch import BatchNorm
from asr_ablations.tools.checks import MOST_WIDTH, is_whole, whole
from asr_ablations.tools.masks import valid_frames
from asr_ablations.training.contracts import NormFactory
from asr_verdicts.errors import choices

CEILING = 20.0
"""Upper bound of the clipped ReLU (Ambroszczyk2019 §1.2)."""


class InputLayer(Protocol):
    """A convolutional nn.Module at the input of a model. Its output has C' = `channels` and F' = `bins`."""

    channels: int
    bins: int

    def output_lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        """Convert numbers of input frames (B,) to numbers of output frames (B,)."""

    def __call__(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map x (B, T, F, C) and lengths (B,) to x (B, T', F', C') and lengths (B,). Padding frames become 0."""


InputLayerFactory = Callable[..., InputLayer]
"""Builds an input layer for x (B, T, bins, inputs) from (inputs, bins, norm=…, channels=…, kernel=…, stride=…)."""


class Convolution(nn.Conv2d):
    """nn.Conv2d with weights in channels_last format, which makes its forward pass 2.5 times as fast on a CPU.

    In CPU training with one or two utterances per batch, layers with 32 or more input channels use contiguous memory.
    For some layer sizes, such as those of model=ds2, oneDNN would otherwise take 80 times as long to compute the
    gradient of the weights (8 s with torch 2.11 and AVX2).
    """

    def __init__(self, *sizes: Any) -> None:
        super().__init__(*sizes)
        self.weight.data = self.weight.data.to(memory_format=torch.channels_last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        trained = self.in_channels >= 32 and x.device.type == "cpu" and torch.is_grad_enabled()
        if trained and len(x) <= 2:  # tested last, because it would fix an exported model's batch size
            return self._conv_forward(x.contiguous(), self.weight.contiguous(), self.bias)
        return super().forward(x)


class PaddedConvolution(nn.Module):
    """An input layer of 2-D convolution, normalisation and clipped ReLU.

    kernel and stride are pairs (frequency, time). The input is padded by half a kernel on each side, so T and F are
    divided by their strides and rounded up. Raises UsageError for invalid sizes, and ValueError for even kernel sizes.
    """

    def __init__(
        self, inputs: int, bins: int, *, norm: NormFactory, channels: int, kernel: Sequence[int], stride: Sequence[int]
    ) -> None:
        super().__init__()
        whole("model.convolutions: channels", channels, 1, MOST_WIDTH)
        for name, sizes in {"kernel": kernel, "stride": stride}.items():
            is_pair = isinstance(sizes, (list, tuple)) and len(sizes) == 2 and all(is_whole(size, 1) for size in sizes)
            if not (is_pair and max(sizes) <= MOST_WIDTH):
                expected = f"two whole numbers from 1 to {MOST_WIDTH}: frequency and time"
                raise choices(f"model.convolutions: {name}", sizes, expected)
        if kernel[0] % 2 == 0 or kernel[1] % 2 == 0:
            raise ValueError(f"convolution kernel {list(kernel)}: expected odd sizes, which have a centre")
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
    """An input layer of 1-D convolution over time, normalisation and clipped ReLU. Its output has one bin.

    kernel and stride are in frames. There is no padding, so T' = floor((T - kernel) / stride) + 1, or 0 if T < kernel.
    """

    def __init__(self, inputs: int, bins: int, *, norm: NormFactory, channels: int, kernel: int, stride: int) -> None:
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
    """Apply `norm` and clipped ReLU to y (B, T, F, C), and set padding frames to 0. Return y and `lengths`."""
    if isinstance(norm, BatchNorm) and norm.fuses(y):
        return norm(y, lengths, 0.0, CEILING), lengths
    valid = valid_frames(lengths, y.shape[1], y.device)[..., None, None]
    return norm(y, lengths).clamp(0.0, CEILING) * valid, lengths


class InputLayers(nn.ModuleList):
    """The input layers of a model, one after another. Their outputs have `size` units per frame.

    `layers` has the channels, kernel and stride of each layer. Inputs need at least `shortest` frames, because torch
    cannot convolve fewer.
    """

    def __init__(
        self, layer: InputLayerFactory, layers: Sequence[Mapping[str, object]], features: int, norm: NormFactory
    ) -> None:
        super().__init__()
        channels, bins = 1, features
        for options in layers:
            built = layer(channels, bins, norm=norm, **options)
            self.append(cast(nn.Module, built))
            channels, bins = built.channels, built.bins
        self.size = channels * bins
        counts = itertools.count(1)
        self.shortest = next(n for n in counts if self.output_lengths(torch.tensor(n, device="cpu")) > 0)

    def output_lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        """Convert numbers of feature frames (B,) to numbers of output frames (B,)."""
        for layer in self:
            lengths = cast(InputLayer, layer).output_lengths(lengths)
        return lengths

    def convolve(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map features (B, T, features) and lengths (B,) to x (B, T', size) and lengths (B,)."""
        x = features[..., None]
        for layer in self:
            x, lengths = layer(x, lengths)
        return x.transpose(2, 3).flatten(2), lengths
