"""Steps with a gradient far from the usual are left out (papers/002 §4.3)."""

from collections.abc import Sequence

import torch
from torch import nn

from asr_ablations.components.gradient.norm import Log, check_limit, clip_to_norm


class SkipOutliers(nn.Module):
    """A gradient whose norm is over `factor` times the running mean, or no number, counts as zero: momentum and weight
    decay go on. Logs train/skipped_share, of the steps. Raises ValueError for values out of range.

    Nothing waits for the device. An outlier enters the mean as `factor` times it: a lasting change of the norm is
    followed, instead of skipped for ever. The mean is part of a checkpoint.
    """

    mean: torch.Tensor
    seen: torch.Tensor

    def __init__(self, *, limit: float | None, factor: float, momentum: float, warm_up: int) -> None:
        super().__init__()
        check_limit(limit)
        if not (factor > 1 and 0 <= momentum < 1 and warm_up >= 1):
            told = f"factor={factor}, momentum={momentum}, warm_up={warm_up}"
            raise ValueError(f"{told}: expected above 1, from 0 to below 1, and 1 or more")
        self.limit, self.factor, self.momentum, self.warm_up = limit, factor, momentum, warm_up
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(()))

    @torch.no_grad()
    def before_step(self, parameters: Sequence[nn.Parameter], *, step: int, seed: int, log: Log) -> None:
        norm = clip_to_norm(parameters, self.limit, log).float()
        usual = self.mean / (1 - self.momentum**self.seen).clamp(min=1e-9)
        bound = torch.where(self.seen >= self.warm_up, self.factor * usual, torch.inf)
        finite = norm.isfinite()
        outlier = ~(finite & (norm <= bound))
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.masked_fill_(outlier, 0.0)
        self.mean.lerp_(torch.where(finite, norm.minimum(bound), self.mean), 1 - self.momentum)
        self.seen += finite
        log("train/skipped_share", outlier.float())

    def after_step(self, parameters: Sequence[nn.Parameter], log: Log) -> None:
        pass
