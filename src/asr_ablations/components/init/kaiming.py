"""Kaiming initialisation for rectifiers (He et al. 2015, equation 10)."""

from torch import nn

from asr_ablations.components.init.matrices import weight_matrices


def kaiming_normal(model: nn.Module) -> None:
    """Sample each weight matrix, kernel and recurrent gate from N(0, 2 / fan_in)."""
    for matrix in weight_matrices(model):
        nn.init.kaiming_normal_(matrix, nonlinearity="relu")
