"""Xavier initialisation from a normal distribution (Glorot & Bengio 2010; Ambroszczyk2019 §2.7.1)."""

from torch import nn

from asr_ablations.components.init.matrices import weight_matrices


def xavier_normal(model: nn.Module) -> None:
    """Sample each weight matrix, kernel and recurrent gate from N(0, 2 / (fan_in + fan_out))."""
    for matrix in weight_matrices(model):
        nn.init.xavier_normal_(matrix)
