"""The LSTM's step through torch.compile, in a Python loop over the frames."""

from collections.abc import Callable
from functools import cache

import torch
from torch import nn
from torch.nn.functional import linear


class LSTMCompiled(nn.Module):
    """One layer, one direction: (x (B, T, D), lengths (B,)) → (B, T, H), with the same numbers as rnn=lstm.

    The step is compiled, not the loop: compiling a loop of 1000 frames takes longer than training. All layers and
    directions share one compiled step, since the inputs of all frames are one matrix product before the loop.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.cell = nn.LSTM(input_size, hidden_size, batch_first=True)  # only holds the weights

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        ((inputs, recurrent, input_bias, recurrent_bias),) = self.cell.all_weights
        entering = linear(x.transpose(0, 1), inputs, input_bias + recurrent_bias)  # (T, B, gates · H)
        hidden = memory = x.new_zeros(len(x), self.cell.hidden_size)
        step, outputs = _compiled(), []
        for frame in entering.unbind(0):
            hidden, memory = step(frame, hidden, memory, recurrent)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)


def _step(
    entering: torch.Tensor, hidden: torch.Tensor, memory: torch.Tensor, recurrent: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    enter, forget, candidate, leave = torch.addmm(entering, hidden, recurrent.T).chunk(4, dim=1)
    memory = forget.sigmoid() * memory + enter.sigmoid() * candidate.tanh()
    return leave.sigmoid() * memory.tanh(), memory


@cache
def _compiled() -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    return torch.compile(_step, dynamic=False)
