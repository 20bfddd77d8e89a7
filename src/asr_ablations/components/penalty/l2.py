"""L2 regularisation as a term of the loss (Ambroszczyk2019 §2.3.3; Krogh & Hertz 1991)."""

import torch
from torch import nn

from asr_ablations.tools.checks import number


class SquaredNorm:
    """Computes scale · ‖W‖²_F in nats, float32, over matrices and kernels, without biases and norm parameters.

    This adds 2 · scale · W to the gradient before clipping. In contrast, the weight_decay of an optimizer adds
    weight_decay · W after clipping, for every parameter. The thesis gives only the formula. Layers that are not yet in
    use (pretrain=layers) also shrink. Raises UsageError for a scale below 0.
    """

    def __init__(self, *, scale: float) -> None:
        self.scale = number("penalty.scale", scale, least=0)

    def __call__(self, model: nn.Module) -> torch.Tensor:
        # float32 first: the sum of millions of squares does not fit into 16 bits
        squares = [weights.float().square().sum() for weights in model.parameters() if weights.dim() > 1]
        return self.scale * torch.stack(squares).sum()
