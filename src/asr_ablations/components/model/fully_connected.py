"""A fully connected layer between the recurrent ones and the output (Ambroszczyk2019 §1.2)."""

from collections.abc import Sequence

import torch
from torch import nn

from asr_ablations.components.model.convolution import CEILING
from asr_ablations.components.model.dropout import Dropout
from asr_ablations.components.norm import NormFactory
from asr_ablations.tools.checks import whole


class FullyConnected(nn.Module):
    """(x (B, T, D), lengths (B,)) → (B, T, H): product, norm, clipped ReLU and dropout, each frame by itself."""

    def __init__(self, inputs: int, outputs: int, *, norm: NormFactory, dropout: float) -> None:
        super().__init__()
        self.product = nn.Linear(inputs, outputs)
        self.norm = norm([outputs])
        self.dropout = Dropout(dropout)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.norm(self.product(x), lengths).clamp(0.0, CEILING))


def hidden_layers(count: int, inputs: int, width: int, *, norm: NormFactory, dropout: float) -> Sequence[nn.Module]:
    """The layers before the output where there are `count` with it. Raises UsageError for a count below 1."""
    hidden = whole("model.fully_connected", count, 1) - 1
    return [FullyConnected(width if n else inputs, width, norm=norm, dropout=dropout) for n in range(hidden)]
