"""Orthogonal recurrent matrices (Saxe et al. 2014; Le et al. 2015 for recurrences); Xavier's normal for the rest."""

from torch import nn

from asr_ablations.components.init.matrices import weight_matrices


def orthogonal(model: nn.Module) -> None:
    """Draw random orthogonal recurrent matrices, gate by gate, which rotate the previous state and keep its norm. All
    other matrices are drawn as by init=xavier.
    """
    for matrix in weight_matrices(model, recurrent=False):
        nn.init.xavier_normal_(matrix)
    for matrix in weight_matrices(model, recurrent=True):
        nn.init.orthogonal_(matrix)
