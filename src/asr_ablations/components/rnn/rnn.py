"""The plain recurrent network with tanh or ReLU (Ambroszczyk2019 §2.4)."""

import torch
from torch import nn

from asr_ablations.native.operations import Cell

NATIVE = {"tanh": "tanh", "relu": "clipped"}
"""The native library's cell for each nonlinearity of nn.RNN. ReLU is `clipped` with an infinite ceiling."""


class RNN(nn.Module):
    """A unidirectional layer that maps x (B, T, D) to (B, T, H). nonlinearity: either tanh or relu"""

    def __init__(self, input_size: int, hidden_size: int, *, nonlinearity: str) -> None:
        super().__init__()
        if nonlinearity not in NATIVE:
            raise ValueError(f"nonlinearity={nonlinearity}: expected {', '.join(NATIVE)}")
        self.cell = nn.RNN(input_size, hidden_size, nonlinearity=nonlinearity, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.cell(x)[0]

    def native_cell(self) -> Cell:
        return Cell(NATIVE[self.cell.nonlinearity], self.cell.all_weights[0])
