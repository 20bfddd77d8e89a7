"""No normalisation: without it, says Ambroszczyk2019 §2.3.1, the model does not learn."""

from collections.abc import Sequence

import torch
from torch import nn


class NoNorm(nn.Module):
    """(x (B, T, …, D), lengths (B,)) → x as it is."""

    def __init__(self, frame: Sequence[int]) -> None:
        super().__init__()

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return x
