"""Long short-term memory (Hochreiter & Schmidhuber 1997; Ambroszczyk2019 §2.4)."""

import torch
from torch import nn

from asr_ablations.native.operations import Cell


class LSTM(nn.Module):
    """A unidirectional LSTM layer that maps x (B, T, D) to (B, T, H)."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.cell = nn.LSTM(input_size, hidden_size, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.cell(x)[0]

    def native_cell(self) -> Cell:
        return Cell("lstm", self.cell.all_weights[0])
