"""Xavier initialisation from a uniform distribution (Glorot & Bengio 2010, equation 16; Baunsgaard2020 §2.2.1)."""

from torch import nn

from asr_ablations.components.init.matrices import weight_matrices


def xavier_uniform(model: nn.Module) -> None:
    """Sample each weight matrix, kernel and recurrent gate from U(-a, a), where a² = 6 / (fan_in + fan_out).

    The standard deviation is the same as with init=xavier.
    """
    for matrix in weight_matrices(model):
        nn.init.xavier_uniform_(matrix)
