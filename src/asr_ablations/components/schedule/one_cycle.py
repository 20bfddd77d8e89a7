"""One cycle: the learning rate rises and then falls, both along a cosine (Smith & Topin 2018)."""

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler


def one_cycle(
    optimizer: Optimizer, total_steps: int, *, warm_up: float, start_divisor: float, end_divisor: float
) -> LRScheduler:
    """Build a schedule that rises from rate / start_divisor to the optimizer's rate, then falls to rate / end_divisor.

    The rise takes the share `warm_up` of all steps. Raises ValueError unless 0 ≤ warm_up ≤ 1 and both divisors are ≥ 1.
    """
    if not 0 <= warm_up <= 1:
        raise ValueError(f"warm_up={warm_up}: expected 0 to 1")
    if min(start_divisor, end_divisor) < 1:
        raise ValueError(f"start_divisor={start_divisor}, end_divisor={end_divisor}: expected 1 or more")
    # not torch's OneCycleLR, which divides by zero if the warm-up is one step long
    peak, last = warm_up * (total_steps - 1), max(1, total_steps - 1)

    def factor(step: int) -> float:
        if step < peak:
            return _interpolate(1 / start_divisor, 1.0, step / peak)
        return _interpolate(1.0, 1 / end_divisor, min(1.0, (step - peak) / max(1e-9, last - peak)))

    return LambdaLR(optimizer, factor)


def _interpolate(begin: float, end: float, share: float) -> float:
    return end + (begin - end) * (1 + math.cos(math.pi * share)) / 2
