"""Decay after the validation error stops falling (Doetsch2016 §4.3; "newbob" in QuickNet, RASR and RETURNN)."""

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from asr_ablations.runs.metrics_files import FIGURES


class Newbob(LambdaLR):
    """Multiplies the rate by `factor` after each epoch in which `monitor` falls by no more than the share `threshold`.

    This is a MonitoredSchedule, so it is stepped after each validation. Raises ValueError for an unknown monitor, or a
    factor or threshold outside 0…1.
    """

    def __init__(
        self, optimizer: Optimizer, total_steps: int, *, monitor: str, factor: float, threshold: float
    ) -> None:
        if monitor not in FIGURES:
            raise ValueError(f"monitor={monitor}: expected {', '.join(FIGURES)}")
        if not 0 < factor <= 1:
            raise ValueError(f"factor={factor}: expected a number above 0, up to 1")
        if not 0 <= threshold < 1:
            raise ValueError(f"threshold={threshold}: expected 0 to below 1")
        self.monitor, self.factor, self.threshold = monitor, factor, threshold
        self.decays = 0
        self.previous: float | None = None
        # checkpoints do not contain this function, but they contain the attributes that it reads
        super().__init__(optimizer, lambda _: self.factor**self.decays)

    def step(self, figure: float | None = None) -> None:
        """Step with the value of `monitor` after an epoch. torch itself takes a first step without a value."""
        if figure is not None:
            if self.previous is not None and not figure < self.previous * (1 - self.threshold):
                self.decays += 1
            self.previous = float(figure)
        super().step()
