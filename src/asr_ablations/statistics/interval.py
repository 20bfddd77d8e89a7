"""Confidence intervals of Student's t."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A confidence interval: the estimate ± half_width, which is `standard_error` times t of `degrees` of freedom."""

    estimate: float
    half_width: float
    standard_error: float
    degrees: float

    @property
    def low(self) -> float:
        return self.estimate - self.half_width

    @property
    def high(self) -> float:
        return self.estimate + self.half_width
