"""Clipping by norm (Pascanu et al. 2013)."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn

Log = Callable[..., None]
"""log(name, value): a figure of the step; the epoch's is the mean over its steps."""


def clip_to_norm(parameters: Sequence[nn.Parameter], limit: float | None, log: Log) -> torch.Tensor:
    """Scale all gradients so that their common norm is `limit` at most; returns and logs the norm before. Nothing here
    waits for the device.
    """
    limit = limit or math.inf
    norm = nn.utils.clip_grad_norm_(parameters, limit)
    log("train/gradient_norm", norm)
    log("train/clipped_share", (norm > limit).float())
    return norm


def check_limit(limit: float | None) -> None:
    """Raises ValueError for a limit that is neither null nor a number above 0."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0):
        raise ValueError(f"limit={limit}: expected a number above 0, or null for none")


class ClipNorm:
    """No step is larger than `limit`, whatever the direction. Logs train/clipped_share, of the steps."""

    def __init__(self, *, limit: float | None) -> None:
        check_limit(limit)
        self.limit = limit

    def before_step(self, parameters: Sequence[nn.Parameter], *, step: int, seed: int, log: Log) -> None:
        clip_to_norm(parameters, self.limit, log)

    def after_step(self, parameters: Sequence[nn.Parameter], log: Log) -> None:
        pass
