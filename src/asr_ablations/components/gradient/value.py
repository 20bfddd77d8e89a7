"""Clipping of gradients by the value of each entry."""

from collections.abc import Sequence

import torch
from torch import nn

from asr_ablations.components.gradient.norm import check_limit
from asr_ablations.training.contracts import GradientTreatment, Log


class ClipValue(GradientTreatment):
    """Limits every entry of the gradient to the range from -limit to limit.

    Logs the norm before clipping, and the share of clipped entries as train/clipped_share. Raises ValueError unless
    `limit` is above 0.
    """

    def __init__(self, *, limit: float) -> None:
        check_limit(limit)
        if limit is None:
            raise ValueError("limit=None: expected a number above 0; gradient=none clips nothing")
        self.limit = limit

    def before_step(self, parameters: Sequence[nn.Parameter], *, step: int, seed: int, log: Log) -> None:
        gradients = [p.grad for p in parameters if p.grad is not None]
        log("train/gradient_norm", nn.utils.get_total_norm(gradients))
        beyond = torch.stack([(g.abs() > self.limit).sum() for g in gradients]).sum()
        log("train/clipped_share", beyond / sum(g.numel() for g in gradients))
        nn.utils.clip_grad_value_(parameters, self.limit)
