"""Clipping of gradients by their norm (Pascanu et al. 2013)."""

import math
from collections.abc import Sequence

import torch
from torch import nn

from asr_ablations.tools.checks import is_number
from asr_ablations.training.contracts import GradientTreatment, Log


def clip_to_norm(parameters: Sequence[nn.Parameter], limit: float | None, log: Log) -> torch.Tensor:
    """Scale all gradients by one factor to limit their total norm to `limit`. None means no limit.

    Returns and logs the norm before scaling, without waiting for the device. The mean of train/clipped_share over an
    epoch ignores steps whose norm is not finite.
    """
    limit = limit or math.inf
    norm = nn.utils.clip_grad_norm_(parameters, limit)
    log("train/gradient_norm", norm)
    log("train/clipped_share", torch.where(norm.isfinite(), (norm > limit).float(), torch.nan))
    return norm


def check_limit(limit: float | None) -> None:
    """Raise ValueError unless `limit` is None or above 0. Infinity is allowed."""
    if limit is not None and not ((is_number(limit) or limit == math.inf) and limit > 0):
        raise ValueError(f"limit={limit}: expected a number above 0, or null for no limit")


class ClipNorm(GradientTreatment):
    """Limits the norm of the gradient without changing its direction, and logs the share of clipped steps."""

    def __init__(self, *, limit: float | None) -> None:
        check_limit(limit)
        self.limit = limit

    def before_step(self, parameters: Sequence[nn.Parameter], *, step: int, seed: int, log: Log) -> None:
        clip_to_norm(parameters, self.limit, log)
