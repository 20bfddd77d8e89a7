"""Linear warm-up (Goyal et al. 2017), then decay along a cosine (Loshchilov & Hutter 2017)."""

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler


def cosine(optimizer: Optimizer, total_steps: int, *, warm_up: float, end_divisor: float) -> LRScheduler:
    """Build a schedule that rises linearly to the optimizer's rate, and then falls along a cosine.

    The rise takes the share `warm_up` of all steps, and the fall ends at the optimizer's rate / end_divisor. Raises
    ValueError unless 0 ≤ warm_up ≤ 1 and end_divisor ≥ 1.
    """
    if not 0 <= warm_up <= 1:
        raise ValueError(f"warm_up={warm_up}: expected 0 to 1")
    if end_divisor < 1:
        raise ValueError(f"end_divisor={end_divisor}: expected 1 or more")
    peak, last = warm_up * (total_steps - 1), max(1, total_steps - 1)

    def factor(step: int) -> float:
        if step < peak:
            return (step + 1) / (peak + 1)
        share = min(1.0, (step - peak) / max(1e-9, last - peak))
        return 1 / end_divisor + (1 - 1 / end_divisor) * (1 + math.cos(math.pi * share)) / 2

    return LambdaLR(optimizer, factor)
