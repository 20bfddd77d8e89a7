"""Orthogonal recurrent matrices (Saxe et al. 2014; Le et al. 2015), with init=xavier for all other matrices."""

from torch import nn

from asr_ablations.components.init.matrices import weight_matrices


def orthogonal(model: nn.Module) -> None:
    """Sample a random orthogonal recurrent matrix for each gate, which preserves the norm of the previous state.

    All other matrices are sampled as with init=xavier.
    """
    for matrix in weight_matrices(model, recurrent=False):
        nn.init.xavier_normal_(matrix)
    for matrix in weight_matrices(model, recurrent=True):
        nn.init.orthogonal_(matrix)
