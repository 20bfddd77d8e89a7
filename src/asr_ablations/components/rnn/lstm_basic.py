"""An LSTM in plain PyTorch that loops over frames: slow, but easy to modify (LSTMCell-basic in Braun2018 table 2)."""

import torch
from torch import nn
from torch.nn.functional import linear


class LSTMBasic(nn.Module):
    """A unidirectional layer that maps x (B, T, D) to (B, T, H) with the same function as rnn=lstm.

    The equations are those in torch's documentation of nn.LSTM (Hochreiter & Schmidhuber 1997; Gers et al. 2000).
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        # used only for its weights, whose names, shapes and initial values are the same as with rnn=lstm
        self.cell = nn.LSTM(input_size, hidden_size, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        hidden = memory = x.new_zeros(len(x), self.cell.hidden_size)
        outputs = []
        for frame in x.unbind(1):
            hidden, memory = self._step(frame, hidden, memory)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)

    def _step(
        self, frame: torch.Tensor, hidden: torch.Tensor, memory: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ((inputs, recurrent, input_bias, recurrent_bias),) = self.cell.all_weights
        gates = linear(frame, inputs, input_bias) + linear(hidden, recurrent, recurrent_bias)
        enter, forget, candidate, leave = gates.chunk(4, dim=1)  # the order in which torch stacks the gates
        memory = forget.sigmoid() * memory + enter.sigmoid() * candidate.tanh()
        return leave.sigmoid() * memory.tanh(), memory
