"""Decisions on several differences at once, by Holm's procedure, and the intervals that agree with them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """The decision of Holm's procedure on one difference.

    - p_adjusted: p-value to compare with the level of the whole family
    - level: two-sided level of this decision. An interval of 1 − level excludes 0 exactly if `rejected` is True.
    - rejected: whether the hypothesis of no difference is rejected
    """

    p_adjusted: float
    level: float
    rejected: bool


def holm_decisions(ps: Sequence[float], alpha: float = 0.05) -> list[Decision]:
    """Decide in the order of the p-values. The chance of any false rejection is at most alpha (Holm 1979).

    The j-th smallest of m p-values is decided at alpha / (m − j + 1). All p-values after the first that is not rejected
    get its level. The intervals agree with the decisions, but the chance that all of them contain the true values can
    be less than 1 − alpha.
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
        # p · m and alpha / m are rounded, but the p-value must not contradict the decision
        shown = min(adjusted, alpha) if rejecting else max(adjusted, math.nextafter(alpha, 1.0))
        decisions[index] = Decision(shown, level, rejecting)
    return [decisions[index] for index in range(len(ps))]
