"""Recurrent layers. Contract: RecurrentFactory, which makes a Recurrent layer."""

from typing import Protocol, runtime_checkable

import torch
from torch import nn


@runtime_checkable
class Recurrent(Protocol):
    """One layer in one direction, forwards in time. Also an nn.Module."""

    def __call__(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """(x (B, T, D), lengths (B,) in frames) → (B, T, H). A frame depends on itself and those before it only, so
        that padding behind an utterance does not matter; the caller sets the rows past a length to 0.
        """


@runtime_checkable
class RecurrentFactory(Protocol):
    """rnn: from sizes to a layer."""

    def __call__(self, input_size: int, hidden_size: int, /) -> nn.Module:
        """A Recurrent layer with D = input_size and H = hidden_size. Its weights are its own parameters, or those of
        torch's recurrent modules within it, by which initialisations know the gates.
        """


__all__ = ["Recurrent", "RecurrentFactory"]
