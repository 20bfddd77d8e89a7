"""The plain recurrent network with tanh or ReLU (Ambroszczyk2019 §2.4)."""

import torch
from torch import nn

from asr_ablations.components.rnn.recurrence import PlainRecurrence, applies, relu_slope, tanh_slope
from asr_ablations.native.operations import Cell

IN_PLACE = {"tanh": (torch.tanh_, tanh_slope), "relu": (torch.relu_, relu_slope)}
"""The non-linearities of nn.RNN, and the derivatives of each."""


class RNN(nn.Module):
    """One layer, one direction: (x (B, T, D), lengths (B,)) → (B, T, H). nonlinearity: tanh or relu."""

    def __init__(self, input_size: int, hidden_size: int, *, nonlinearity: str) -> None:
        super().__init__()
        if nonlinearity not in IN_PLACE:
            raise ValueError(f"nonlinearity={nonlinearity}: expected {', '.join(IN_PLACE)}")
        self.cell = nn.RNN(input_size, hidden_size, nonlinearity=nonlinearity, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        if not applies(x):
            return self.cell(x)[0]
        (weights,) = self.cell.all_weights
        return PlainRecurrence.apply(x, *weights, *IN_PLACE[self.cell.nonlinearity])

    def native_cell(self) -> Cell:
        kind = "tanh" if self.cell.nonlinearity == "tanh" else "clipped"  # without a ceiling
        return Cell(kind, self.cell.all_weights[0])
