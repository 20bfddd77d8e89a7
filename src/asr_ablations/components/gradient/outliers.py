"""Skipping of steps whose gradient is unusually large (Doetsch2016 §4.3)."""

from collections.abc import Sequence

import torch
from torch import nn

from asr_ablations.components.gradient.norm import check_limit, clip_to_norm
from asr_ablations.training.contracts import GradientTreatment, Log


class SkipOutliers(nn.Module, GradientTreatment):
    """Sets a step's gradient to 0 if its norm is not finite or exceeds `factor` times the running mean of norms.

    Momentum and weight decay still change the weights in such a step. A larger norm enters the mean as `factor` times
    the mean, so the mean follows a lasting change slowly. Checkpoints contain it. The share of skipped steps is logged
    as train/skipped_share without waiting for the device. Raises ValueError for values out of range.
    """

    mean: torch.Tensor
    steps: torch.Tensor

    def __init__(self, *, limit: float | None, factor: float, momentum: float, warm_up: int) -> None:
        super().__init__()
        check_limit(limit)
        if not (factor > 1 and 0 <= momentum < 1 and warm_up >= 1):
            values = f"factor={factor}, momentum={momentum}, warm_up={warm_up}"
            raise ValueError(f"{values}: expected factor > 1, 0 ≤ momentum < 1 and warm_up ≥ 1")
        self.limit, self.factor, self.momentum, self.warm_up = limit, factor, momentum, warm_up
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("steps", torch.zeros(()))

    @torch.no_grad()
    def before_step(self, parameters: Sequence[nn.Parameter], *, step: int, seed: int, log: Log) -> None:
        norm = clip_to_norm(parameters, self.limit, log).float()
        usual = self.mean / (1 - self.momentum**self.steps).clamp(min=1e-9)
        bound = torch.where(self.steps >= self.warm_up, self.factor * usual, torch.inf)
        finite = norm.isfinite()
        outlier = ~(finite & (norm <= bound))
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.masked_fill_(outlier, 0.0)
        self.mean.lerp_(torch.where(finite, norm.minimum(bound), self.mean), 1 - self.momentum)
        self.steps += finite
        log("train/skipped_share", outlier.float())
