"""A bound on the weights of each unit (Srebro & Shraibman 2005; Hinton et al. 2012; Doetsch2016 §4.3)."""

from collections.abc import Sequence

import torch
from torch import nn

from asr_ablations.components.gradient.norm import check_limit, clip_to_norm
from asr_ablations.training.contracts import GradientTreatment, Log


class NormConstraint(GradientTreatment):
    """Limits the norm of each unit's incoming weights (a matrix row or a kernel) to `largest` after every step.

    Gradients are clipped as by gradient=norm. Logs train/constrained_share, the share of limited units. Raises
    ValueError unless `largest` is above 0.
    """

    def __init__(self, *, limit: float | None, largest: float) -> None:
        check_limit(limit)
        if not largest > 0:
            raise ValueError(f"largest={largest}: expected a number above 0")
        self.limit, self.largest = limit, float(largest)

    def before_step(self, parameters: Sequence[nn.Parameter], *, step: int, seed: int, log: Log) -> None:
        clip_to_norm(parameters, self.limit, log)

    @torch.no_grad()
    def after_step(self, parameters: Sequence[nn.Parameter], log: Log) -> None:
        shares = []
        for weight in parameters:
            if weight.dim() >= 2:
                norms = torch.linalg.vector_norm(weight.flatten(1), dim=1)
                weight.mul_((self.largest / norms).clamp(max=1.0).view(-1, *[1] * (weight.dim() - 1)))
                shares.append((norms > self.largest).float())
        log("train/constrained_share", torch.cat(shares).mean())
