"""Batch normalisation after each convolution, but not after recurrent layers (Ambroszczyk2019 §2.3.1)."""

from collections.abc import Sequence

from torch import nn

from asr_ablations.components.norm.batch import BatchNorm
from asr_ablations.components.norm.none import NoNorm


def batch_convolutions(frame: Sequence[int], *, momentum: float, epsilon: float) -> nn.Module:
    """Build batch norm for frames (F, C) of convolutions, and no normalisation for frames (D,) of other layers."""
    return BatchNorm(frame, momentum=momentum, epsilon=epsilon) if len(frame) == 2 else NoNorm(frame)
