"""Iteration over the individual weight matrices of a model."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def weight_matrices(model: nn.Module, *, recurrent: bool | None = None) -> Iterator[torch.Tensor]:
    """Yield a view of each weight matrix or kernel of a model. Stacked matrices, such as gates, are yielded separately.

    recurrent: True yields only matrices that multiply the previous state of a recurrent layer. False yields only the
    remaining matrices. None yields all matrices.
    """
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            if weight.dim() >= 2 and recurrent in (None, name.startswith("weight_hh_")):
                yield from weight.data.chunk(_count_stacked(module))


def _count_stacked(module: nn.Module) -> int:
    """Return how many matrices torch stacks in each weight of a module: gates, groups, or query, key and value."""
    if isinstance(module, nn.MultiheadAttention):
        return 3
    if isinstance(module, nn.RNNBase):
        return GATES[module.mode.split("_")[0]]
    return module.groups if isinstance(module, _ConvNd) else 1
