"""Batch normalisation after the convolutions only: "after each" of them (Ambroszczyk2019 §2.3.1)."""

from collections.abc import Sequence

from torch import nn

from asr_ablations.components.norm.batch import BatchNorm
from asr_ablations.components.norm.none import NoNorm


def batch_convolutions(frame: Sequence[int], *, momentum: float, epsilon: float) -> nn.Module:
    """Batch norm for frames (F, C), an image's column; no norm for frames (D,), a recurrent layer's output."""
    return BatchNorm(frame, momentum=momentum, epsilon=epsilon) if len(frame) == 2 else NoNorm(frame)
