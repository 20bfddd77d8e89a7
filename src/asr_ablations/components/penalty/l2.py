"""L2 regularisation as a term of the loss (Ambroszczyk2019 §2.3.3; Krogh & Hertz 1991)."""

import torch
from torch import nn

from asr_ablations.tools.checks import number


class SquaredNorm:
    """scale · ‖W‖²_F in nats, float32: over all matrices and kernels of a model, without biases and the vectors of
    norms.

    An optimizer's weight_decay is another thing: it adds weight_decay · W to the gradient of every parameter, after
    that was clipped, and this adds 2 · scale · W before. The thesis says no more of its own than the formula. Layers
    that wait for their turn (pretrain=layers) shrink, too. Raises UsageError for a scale below 0.
    """

    def __init__(self, *, scale: float) -> None:
        self.scale = number("penalty.scale", scale, least=0)

    def __call__(self, model: nn.Module) -> torch.Tensor:
        # float32 first: the sum of millions of squares does not fit into 16 bits
        squares = [weights.float().square().sum() for weights in model.parameters() if weights.dim() > 1]
        return self.scale * torch.stack(squares).sum()
