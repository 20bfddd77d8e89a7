"""PyTorch's own initialisation: "no initialisation" in papers/003 §2.7.1."""

from torch import nn


def default(model: nn.Module) -> None:
    """Leave the weights as torch drew them."""
