"""Normalisations of layers. Contract: NormFactory, which makes a Norm."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import nn


@runtime_checkable
class Norm(Protocol):
    """A normalisation within a model. Also an nn.Module."""

    def __call__(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """(x (B, T, …, D), lengths (B,) in frames) → the same shape and dtype. Padding never enters a statistic, and a
        batch without a valid frame changes no running statistic.
        """


@runtime_checkable
class NormFactory(Protocol):
    """norm: from the shape of a frame to a normalisation."""

    def __call__(self, frame: Sequence[int], /) -> nn.Module:
        """A Norm for frames of this shape: (F, C), an image's column, or (D,), a recurrent layer's output."""


__all__ = ["Norm", "NormFactory"]
