"""The weight matrices of a model, gate by gate."""

from collections.abc import Iterator

import torch
from torch import nn

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def weight_matrices(model: nn.Module) -> Iterator[torch.Tensor]:
    """Views of all weights with two dimensions or more. torch stacks the gates of a recurrent layer in one matrix,
    whose shape would give the wrong number of outputs: they come one by one.
    """
    for module in model.modules():
        gates = GATES[module.mode.split("_")[0]] if isinstance(module, nn.RNNBase) else 1
        for weight in module.parameters(recurse=False):
            if weight.dim() >= 2:
                yield from weight.data.chunk(gates)
