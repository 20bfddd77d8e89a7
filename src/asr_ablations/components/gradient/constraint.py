"""A limit on the norm of each unit's weights (Srebro & Shraibman 2005; Hinton et al. 2012; Doetsch2016 §4.3)."""

from collections.abc import Sequence

import torch
from torch import nn

from asr_ablations.components.gradient.norm import ClipNorm
from asr_ablations.training.contracts import Log


class NormConstraint(ClipNorm):
    """Clips gradients like gradient=norm, and limits the norm of each unit's weights after every step.

    `largest` is the maximum norm of a unit's incoming weights (a matrix row or a kernel). The share of units whose
    weights were scaled down is logged as train/constrained_share. Raises ValueError unless `largest` is above 0.
    """

    def __init__(self, *, limit: float | None, largest: float) -> None:
        super().__init__(limit=limit)
        if not largest > 0:
            raise ValueError(f"largest={largest}: expected a number above 0")
        self.largest = float(largest)

    @torch.no_grad()
    def after_step(self, parameters: Sequence[nn.Parameter], log: Log) -> None:
        shares = []
        for weight in parameters:
            if weight.dim() >= 2:
                norms = torch.linalg.vector_norm(weight.flatten(1), dim=1)
                weight.mul_((self.largest / norms).clamp(max=1.0).view(-1, *[1] * (weight.dim() - 1)))
                shares.append((norms > self.largest).float())
        log("train/constrained_share", torch.cat(shares).mean())
