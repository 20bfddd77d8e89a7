"""An LSTM with one merged matrix product per frame, similar to LSTMCell-fused in Braun2018 table 2."""

import torch
from torch import nn
from torch.nn.functional import linear


class LSTMFused(nn.Module):
    """A unidirectional layer that maps x (B, T, D) to (B, T, H) with the same function as rnn=lstm.

    A single matrix product before the loop transforms the inputs of all frames for all gates. In the loop, one product
    per frame covers all gates (Appleyard et al. 2016, §3; Braun2018 §3.2, citing its reference 9).
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        # used only for its weights, whose names, shapes and initial values are the same as with rnn=lstm
        self.cell = nn.LSTM(input_size, hidden_size, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        ((inputs, recurrent, input_bias, recurrent_bias),) = self.cell.all_weights
        entering = linear(x.transpose(0, 1), inputs, input_bias + recurrent_bias)  # (T, B, gates · H)
        hidden = memory = x.new_zeros(len(x), self.cell.hidden_size)
        outputs = []
        for frame in entering.unbind(0):
            enter, forget, candidate, leave = torch.addmm(frame, hidden, recurrent.T).chunk(4, dim=1)
            memory = forget.sigmoid() * memory + enter.sigmoid() * candidate.tanh()
            hidden = leave.sigmoid() * memory.tanh()
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)
