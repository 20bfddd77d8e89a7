"""PyTorch's default initialisation, which Ambroszczyk2019 §2.7.1 calls "no initialisation"."""

from torch import nn


def default(model: nn.Module) -> None:
    """Leave the weights unchanged, because torch initialises them when it builds the model."""
