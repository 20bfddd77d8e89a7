"""Layer normalisation of each frame, independently of other utterances and of padding (Ba et al. 2016)."""

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import layer_norm

from asr_ablations.tools.checks import number


class LayerNorm(nn.Module):
    """Normalises each frame of x (B, T, …, D) over all its elements. frame: shape (…, D) of a frame"""

    def __init__(self, frame: Sequence[int], *, epsilon: float) -> None:
        super().__init__()
        self.frame, self.epsilon = tuple(frame), number("norm.epsilon", epsilon, least=0)
        # flattened, because initialisation methods overwrite every parameter with two or more dimensions
        self.weight = nn.Parameter(torch.ones(math.prod(self.frame)))
        self.bias = nn.Parameter(torch.zeros(math.prod(self.frame)))

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        weight, bias = (p.float().view(self.frame) for p in (self.weight, self.bias))
        return layer_norm(x.float(), self.frame, weight, bias, self.epsilon).to(x.dtype)
