"""Exponential decay: the learning rate falls by the same factor at every step."""

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler


def exponential(optimizer: Optimizer, total_steps: int, *, end_divisor: float) -> LRScheduler:
    """Build a schedule that falls to the optimizer's rate / end_divisor. Raises ValueError if end_divisor < 1."""
    if end_divisor < 1:
        raise ValueError(f"end_divisor={end_divisor}: expected 1 or more")
    last = max(1, total_steps - 1)
    return LambdaLR(optimizer, lambda step: end_divisor ** -min(1.0, step / last))
