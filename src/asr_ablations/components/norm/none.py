"""No normalisation. In Ambroszczyk2019 §2.3.1, a model did not learn without it."""

from collections.abc import Sequence

import torch
from torch import nn


class NoNorm(nn.Module):
    """Returns x (B, T, …, D) unchanged."""

    def __init__(self, frame: Sequence[int]) -> None:
        super().__init__()

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return x
