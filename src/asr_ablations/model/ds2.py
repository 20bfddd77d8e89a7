"""DeepSpeech2: convolutions, recurrent layers, a fully connected one (Amodei et al. 2016; papers/003 chapter 1)."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from asr_ablations.masks import valid_frames
from asr_ablations.rnn.directions import Directions, Layer

Norm = Callable[[int], nn.Module]
CEILING = 20.0
"""The clipped ReLU's upper bound (papers/003 §1.2)."""


class Convolution(nn.Module):
    """One 2-D convolution, norm, clipped ReLU on (B, T, F, C); kernel and stride as (frequency, time).

    Padded by half a kernel: T and F become ceil(size / stride), and frames past a length are 0 again afterwards.
    """

    def __init__(self, inputs: int, channels: int, kernel: Sequence[int], stride: Sequence[int], norm: Norm) -> None:
        super().__init__()
        if kernel[0] % 2 == 0 or kernel[1] % 2 == 0:
            raise ValueError(f"convolution kernel {list(kernel)}: expected odd sizes, which have a middle")
        (frequency, time), self.time_stride = kernel, stride[1]
        self.convolve = nn.Conv2d(
            inputs,
            channels,
            (time, frequency),
            (stride[1], stride[0]),
            (time // 2, frequency // 2),
        ).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.norm = norm(channels)

    def output_lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        return (lengths + self.time_stride - 1).div(self.time_stride, rounding_mode="floor")

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.convolve(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        lengths = self.output_lengths(lengths)
        mask = valid_frames(lengths, y.shape[1], y.device)[..., None, None]
        return self.norm(y, lengths).clamp(0.0, CEILING) * mask, lengths


class DeepSpeech2(nn.Module):
    """(features (B, T, D), lengths (B,) on the CPU) → (logits (B, T', V), lengths (B,) in output frames).

    convolutions: a mapping each with channels, kernel and stride, (frequency, time). Norm and dropout stand before
    each recurrent layer but the first, whose input the last convolution has normalised, and before the output. Only
    the first `active_layers` recurrent layers are gone through: all, unless pretraining says otherwise.
    """

    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        convolutions: Sequence[dict[str, Any]],
        rnn: Layer,
        norm: Norm,
        width: int,
        layers: int,
        bidirectional: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList()
        channels, bins = 1, features
        for options in convolutions:
            self.convolutions.append(Convolution(channels, norm=norm, **options))
            channels, bins = options["channels"], -(-bins // options["stride"][0])
        sizes = [channels * bins, *[width] * layers]
        self.recurrent = nn.ModuleList(Directions(rnn, size, width, bidirectional=bidirectional) for size in sizes[:-1])
        self.norms = nn.ModuleList(norm(width) for _ in range(layers))
        self.dropouts = nn.ModuleList(nn.Dropout(dropout) for _ in range(layers + 1))
        self.output = nn.Linear(sizes[-1], outputs)
        self.active_layers = layers

    def get_extra_state(self) -> torch.Tensor:
        # a stack that grows (pretrain=layers) is evaluated as high as it was trained
        return torch.tensor(self.active_layers)

    def set_extra_state(self, state: torch.Tensor) -> None:
        self.active_layers = int(state)

    def output_lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        """Output frames (B,) for feature frames (B,)."""
        for convolution in self.convolutions:
            lengths = convolution.output_lengths(lengths)  # type: ignore[operator]
        return lengths

    def forward(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if not features.shape[1]:  # recordings shorter than a window; torch convolves no empty input
            return features.new_zeros(len(features), 0, self.output.out_features), self.output_lengths(lengths)
        x = features[..., None]
        for convolution in self.convolutions:
            x, lengths = convolution(x, lengths)
        x = self.dropouts[0](x.transpose(2, 3).flatten(2))  # (B, T', C·F')
        layers = list(zip(self.recurrent, self.norms, self.dropouts[1:], strict=True))
        for recurrent, norm, dropout in layers[: self.active_layers]:
            x = dropout(norm(recurrent(x, lengths), lengths))
        return self.output(x), lengths
