"""The plain RNN of DeepSpeech2, with a clipped ReLU (Amodei et al. 2016, §3.1; Ambroszczyk2019 §1.2, §2.4)."""

import torch
from torch import nn
from torch.nn.functional import linear

from asr_ablations.native.operations import Cell


class RNNClippedReLU(nn.Module):
    """A unidirectional layer that maps x (B, T, D) to (B, T, H) with h_t = min(max(W x_t + U h_(t-1) + b, 0), ceiling).

    torch has no such cell. One matrix product before the loop computes W x_t for all frames, and each frame then needs
    only two operations. Raises ValueError unless `ceiling` is above 0.
    """

    def __init__(self, input_size: int, hidden_size: int, *, ceiling: float) -> None:
        super().__init__()
        if not ceiling > 0:
            raise ValueError(f"ceiling={ceiling}: expected a number above 0")
        self.ceiling = ceiling
        self.cell = nn.RNN(input_size, hidden_size, nonlinearity="relu", batch_first=True)  # used only for its weights

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        ((inputs, recurrent, input_bias, recurrent_bias),) = self.cell.all_weights
        entering = linear(x.transpose(0, 1), inputs, input_bias + recurrent_bias)  # (T, B, H)
        hidden = x.new_zeros(len(x), self.cell.hidden_size)
        outputs = []
        for frame in entering.unbind(0):
            hidden = torch.addmm(frame, hidden, recurrent.T).clamp(0.0, self.ceiling)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)

    def native_cell(self) -> Cell:
        return Cell("clipped", self.cell.all_weights[0], self.ceiling)
