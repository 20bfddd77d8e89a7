"""Decide on several differences at once by Holm's procedure, with a level for each difference's interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """The decision of Holm's procedure on one difference.

    - p_adjusted: p-value to compare with the level of the whole family of tests
    - level: two-sided level of this decision. A 1 − level confidence interval excludes 0 exactly if `rejected` is True.
    - rejected: whether the hypothesis of no difference is rejected
    """

    p_adjusted: float
    level: float
    rejected: bool


def holm_decisions(ps: Sequence[float], alpha: float = 0.05) -> list[Decision]:
    """Decide which hypotheses to reject. The chance of any false rejection is at most alpha (Holm 1979).

    The j-th smallest of m p-values is tested at the level alpha / (m − j + 1), until a hypothesis is not rejected.
    The level of that test also applies to all larger p-values. Intervals at these levels agree with the decisions, but
    the chance that all intervals contain the true values can be less than 1 − alpha.
    """
    order = sorted(range(len(ps)), key=lambda index: ps[index])
    decisions: dict[int, Decision] = {}
    rejecting, adjusted, level = True, 0.0, alpha
    for rank, index in enumerate(order):
        left = len(ps) - rank
        if rejecting:
            level = alpha / left
            rejecting = ps[index] <= level
        adjusted = max(adjusted, min(1.0, left * ps[index]))
        # the rounding of p · m and alpha / m must not make the adjusted p-value contradict the decision
        shown = min(adjusted, alpha) if rejecting else max(adjusted, math.nextafter(alpha, 1.0))
        decisions[index] = Decision(shown, level, rejecting)
    return [decisions[index] for index in range(len(ps))]
