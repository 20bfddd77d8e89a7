"""A value and an interval that is not symmetric about it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """A value with the lower and upper end of its confidence interval."""

    value: float
    low: float
    high: float
