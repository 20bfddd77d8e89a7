"""Dropout (Srivastava et al. 2014; papers/003 §2.3.2)."""

import torch
from torch import nn
from torch.nn.functional import dropout


class Dropout(nn.Module):
    """x → x with each number 0 at the probability `rate` and the others times 1 / (1 - rate); x in evaluation.

    A module between layers and not an argument of torch's recurrent layers: theirs does nothing in a single layer.
    Masks come from torch's global generator of the device, which assembly seeds for this alone: who restores its state
    (torch.get_rng_state) continues with the masks that would have followed.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ValueError(f"dropout={rate}: expected a number from 0 to below 1")
        self.rate = rate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return dropout(x, self.rate, self.training)
