"""The weight matrices of a model, one by one."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def weight_matrices(model: nn.Module, *, recurrent: bool | None = None) -> Iterator[torch.Tensor]:
    """Yield views of all weights with two or more dimensions, one matrix at a time.

    recurrent: True yields only the matrices that multiply a recurrent layer's previous state; False yields the others.
    """
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            if weight.dim() >= 2 and recurrent in (None, name.startswith("weight_hh_")):
                yield from weight.data.chunk(_count_stacked(module))


def _count_stacked(module: nn.Module) -> int:
    """Count the matrices that torch stacks in one weight: the shape of the stack gives the wrong number of outputs.

    They are gates of a recurrent layer, groups of a convolution, or query, key and value of attention.
    """
    if isinstance(module, nn.MultiheadAttention):
        return 3
    if isinstance(module, nn.RNNBase):
        return GATES[module.mode.split("_")[0]]
    return module.groups if isinstance(module, _ConvNd) else 1
