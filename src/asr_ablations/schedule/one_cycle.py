"""One cycle: up to the optimizer's rate, then down by a cosine (Smith & Topin 2018)."""

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR


def one_cycle(
    optimizer: Optimizer, total_steps: int, *, warm_up: float, start_divisor: float, end_divisor: float
) -> LRScheduler:
    """Peak at the optimizer's rate after the share `warm_up` of all steps; starts at peak / start_divisor, ends at
    peak / start_divisor / end_divisor. Momentum is left alone.
    """
    return OneCycleLR(
        optimizer,
        max_lr=[group["lr"] for group in optimizer.param_groups],
        total_steps=max(2, total_steps),
        pct_start=warm_up,
        div_factor=start_divisor,
        final_div_factor=end_divisor,
        cycle_momentum=False,
    )
