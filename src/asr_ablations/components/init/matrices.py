"""Access to the single weight matrices of a model."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def weight_matrices(model: nn.Module, *, recurrent: bool | None = None) -> Iterator[torch.Tensor]:
    """Yield a view of each matrix in the weights with two or more dimensions.

    recurrent: True yields only matrices that multiply the previous state of a recurrent layer, False only the others.
    """
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            if weight.dim() >= 2 and recurrent in (None, name.startswith("weight_hh_")):
                yield from weight.data.chunk(_count_stacked(module))


def _count_stacked(module: nn.Module) -> int:
    """Return the number of matrices that torch stacks in one weight, whose shape does not tell their size.

    They are the gates of a recurrent layer, the groups of a convolution, or query, key and value of attention.
    """
    if isinstance(module, nn.MultiheadAttention):
        return 3
    if isinstance(module, nn.RNNBase):
        return GATES[module.mode.split("_")[0]]
    return module.groups if isinstance(module, _ConvNd) else 1
