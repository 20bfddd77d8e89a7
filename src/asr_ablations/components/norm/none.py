"""No normalisation: what papers/003 §2.3.1 says does not learn."""

from collections.abc import Sequence

import torch
from torch import nn


class NoNorm(nn.Module):
    """(x (B, T, …, D), lengths (B,)) → x."""

    def __init__(self, frame: Sequence[int]) -> None:
        super().__init__()

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return x
