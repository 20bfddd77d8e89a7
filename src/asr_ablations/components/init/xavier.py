"""Xavier initialisation from a normal distribution (Glorot & Bengio 2010; papers/003 §2.7.1)."""

from torch import nn

from asr_ablations.components.init.matrices import weight_matrices


def xavier_normal(model: nn.Module) -> None:
    """Every weight matrix and kernel from N(0, 2 / (inputs + outputs)); each gate of a recurrent layer on its own."""
    for matrix in weight_matrices(model):
        nn.init.xavier_normal_(matrix)
