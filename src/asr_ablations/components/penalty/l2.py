"""L2 regularisation as a term of the loss (Ambroszczyk2019 §2.3.3; Krogh & Hertz 1991)."""

import torch
from torch import nn

from asr_ablations.tools.checks import number


class SquaredNorm:
    """Computes scale · ‖W‖²_F in nats and float32 over matrices and kernels, but not over biases and norm parameters.

    The penalty adds 2 · scale · W to the gradient before clipping. In contrast, an optimizer's weight_decay acts after
    clipping and on every parameter. Ambroszczyk2019 §2.3.3 gives only the formula. The penalty also shrinks the weights
    of layers that pretrain=layers has not added yet. Raises UsageError if `scale` is below 0.
    """

    def __init__(self, *, scale: float) -> None:
        self.scale = number("penalty.scale", scale, least=0)

    def __call__(self, model: nn.Module) -> torch.Tensor:
        # converted to float32 first, because the sum of millions of squares does not fit into 16 bits
        squares = [weights.float().square().sum() for weights in model.parameters() if weights.dim() > 1]
        return self.scale * torch.stack(squares).sum()
