"""The associative LSTM: its memory of complex numbers is written and read with keys (Danihelka et al. 2016)."""

import torch
from torch import nn
from torch.nn.functional import linear

from asr_ablations.tools.checks import is_whole

MOST_COPIES = 1024
"""Maximum number of copies. More copies would only cost time."""


class AssociativeLSTM(nn.Module):
    """A unidirectional layer that maps x (B, T, D) to (B, T, H), with real parts before imaginary parts.

    The memory has `copies` traces, each a sum of element-wise products of a key and a value. Every copy permutes the
    key differently, so retrieval noise differs between copies and partly cancels in their mean. The permutations are
    the same in every layer and for every seed. torch lacks this cell, so a slow loop runs over the frames. Raises
    ValueError if H is odd or `copies` is out of range.
    """

    permutations: torch.Tensor

    def __init__(self, input_size: int, hidden_size: int, *, copies: int) -> None:
        super().__init__()
        if hidden_size % 2:
            raise ValueError(f"width={hidden_size}: expected an even number")
        if not (is_whole(copies, 1) and copies <= MOST_COPIES):
            raise ValueError(f"copies={copies}: expected a whole number from 1 to {MOST_COPIES}")
        size = hidden_size // 2
        self.sizes = [size, size, size, 2 * size, 2 * size, 2 * size]  # three gates, two keys, the value
        # separate matrices, because initialisation depends on each matrix's number of outputs
        self.inputs = nn.ModuleList(nn.Linear(input_size, outputs) for outputs in self.sizes)
        self.recurrent = nn.ModuleList(nn.Linear(hidden_size, outputs, bias=False) for outputs in self.sizes)
        generator = torch.Generator().manual_seed(0)
        permutations = [torch.randperm(size, generator=generator) for _ in range(copies)]
        self.register_buffer("permutations", torch.stack(permutations))  # (copies, H / 2)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        entering = torch.cat([layer(x) for layer in self.inputs], dim=-1)
        recurrent = torch.cat([layer.weight for layer in self.recurrent])  # type: ignore[misc]  # of Linear
        hidden = entering.new_zeros(len(x), recurrent.shape[1])
        memory = entering.new_zeros(len(x), 2, *self.permutations.shape)  # (B, real and imaginary, copies, H / 2)
        outputs = []
        for frame in entering.unbind(1):
            hidden, memory = self._step(frame + linear(hidden, recurrent), memory)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)

    def _step(self, sums: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the hidden state (B, H) and memory after a frame. sums: preactivations (B, 9 H / 2) of the cell"""
        *gates, enter_key, leave_key, value = sums.split(self.sizes, dim=1)
        forget, enter, leave = (gate.sigmoid()[:, None] for gate in gates)  # shared by real and imaginary parts
        enter_key, leave_key, value = (bound(part.unflatten(1, (2, -1))) for part in (enter_key, leave_key, value))
        written = multiply(enter_key[:, :, self.permutations], (enter * value)[:, :, None])
        memory = forget[:, :, None] * memory + written
        read = multiply(leave_key[:, :, self.permutations], memory).mean(dim=2)
        return (leave * bound(read)).flatten(1), memory


def bound(x: torch.Tensor) -> torch.Tensor:
    """Scale complex numbers (B, 2, …) down to a modulus of at most 1."""
    return x * x.square().sum(dim=1, keepdim=True).clamp(min=1).rsqrt()


def multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Multiply complex numbers (B, 2, …) element-wise. They are pairs, because torch has no complex bfloat16."""
    (a, b), (c, d) = x.unbind(1), y.unbind(1)
    return torch.stack([a * c - b * d, a * d + b * c], dim=1)
