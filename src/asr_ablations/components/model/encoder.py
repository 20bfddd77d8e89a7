"""The frame around the layers of a Conformer and of its relatives: input convolutions, a projection and an output."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn

from asr_ablations.components.model.convolution import InputLayerFactory, InputLayers
from asr_ablations.components.model.dropout import Dropout
from asr_ablations.tools.checks import MOST_LAYERS, MOST_WIDTH, whole
from asr_ablations.training.contracts import NormFactory
from asr_verdicts.errors import choices

MOST_IN_A_KERNEL = 10_001
"""Maximum kernel size in output frames, about 400 seconds at 40 ms per frame."""


class Encoder(nn.Module):
    """Base class of models that map features (B, T, F) and lengths (B,) to logits (B, T', V) and their lengths (B,).

    - convolution, convolutions: the same as in DeepSpeech2; a linear layer projects their output to `width` units
    - layer: builds a layer, which maps x (B, T', width) and lengths (B,) to the same shape

    Raises UsageError for values out of range.
    """

    unread = ("rnn",)
    """Config groups that do not affect this model. A run that selects an option of such a group is refused."""

    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        convolution: InputLayerFactory,
        convolutions: Sequence[Mapping[str, object]],
        norm: NormFactory,
        width: int,
        layers: int,
        layer: Callable[[], nn.Module],
        dropout: float,
    ) -> None:
        super().__init__()
        whole("width", width, 1, MOST_WIDTH)
        whole("layers", layers, 1, MOST_LAYERS)
        self.convolutions = InputLayers(convolution, convolutions, features, norm)
        self.input = nn.Linear(self.convolutions.size, width)
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(layer() for _ in range(layers))
        self.output = nn.Linear(width, outputs)

    def output_lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        """Convert numbers of feature frames (B,) to numbers of output frames (B,)."""
        return self.convolutions.output_lengths(lengths)

    def forward(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if features.shape[1] < self.convolutions.shortest:
            return features.new_zeros(len(features), 0, self.output.out_features), self.output_lengths(lengths)
        x, lengths = self.convolutions.convolve(features, lengths)
        x = self.dropout(self.input(x))  # (B, T', width)
        for layer in self.layers:
            x = layer(x, lengths)
        return self.output(x), lengths


def check_kernel(name: str, kernel: int) -> int:
    """Return the size of a kernel in frames. Raise UsageError unless it is odd, because kernels have a centre."""
    if not whole(name, kernel, 1, MOST_IN_A_KERNEL) % 2:
        raise choices(name, kernel, "an odd number of frames")
    return kernel
