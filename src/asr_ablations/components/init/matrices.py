"""The weight matrices of a model, one by one."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def weight_matrices(model: nn.Module) -> Iterator[torch.Tensor]:
    """Yield views of all weights with two or more dimensions, one matrix at a time."""
    for _, matrix in _named_matrices(model):
        yield matrix


def recurrent_matrices(model: nn.Module) -> Iterator[torch.Tensor]:
    """Yield views of the square matrices by which recurrent layers multiply their previous state."""
    yield from (matrix for name, matrix in _named_matrices(model) if name.startswith("weight_hh_"))


def other_matrices(model: nn.Module) -> Iterator[torch.Tensor]:
    """Yield views of the weight_matrices that are not recurrent_matrices."""
    yield from (matrix for name, matrix in _named_matrices(model) if not name.startswith("weight_hh_"))


def _named_matrices(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            if weight.dim() >= 2:
                for matrix in weight.data.chunk(_count_stacked(module)):
                    yield name, matrix


def _count_stacked(module: nn.Module) -> int:
    """Count the matrices that torch stacks in one weight: the shape of the stack gives the wrong number of outputs.

    They are gates of a recurrent layer, groups of a convolution, or query, key and value of attention.
    """
    if isinstance(module, nn.MultiheadAttention):
        return 3
    if isinstance(module, nn.RNNBase):
        return GATES[module.mode.split("_")[0]]
    return module.groups if isinstance(module, _ConvNd) else 1
