"""An LSTM with merged matrix products, between nn.LSTM and the LSTMCell-fused of Braun2018 table 2."""

import torch
from torch import nn
from torch.nn.functional import linear


class LSTMFused(nn.Module):
    """One layer, one direction: (x (B, T, D), lengths (B,)) → (B, T, H), equal to rnn=lstm.

    One matrix product before the loop covers the inputs of all frames and gates. In the loop, one product covers all
    gates of a frame (Appleyard et al. 2016, §3; Braun2018 §3.2 on its reference 9).
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        # holds only weights, with the names, shapes and initial values of rnn=lstm, so that both are interchangeable
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
