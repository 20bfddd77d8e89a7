"""Verdicts on several differences at once: Holm's procedure and the intervals that agree with it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """The decision of Holm's procedure on one difference.

    - p_adjusted: to compare with the level of the whole family
    - level: the two-sided level of this decision; an interval of 1 − level excludes 0 exactly if `rejected`
    """

    p_adjusted: float
    level: float
    rejected: bool


def holm_decisions(ps: Sequence[float], alpha: float = 0.05) -> list[Decision]:
    """Decisions in the order of the ps; the chance of any false one is at most alpha (Holm 1979).

    The j-th smallest of m p-values is decided at alpha / (m − j + 1). From the first that is not rejected on, all have
    its level. The intervals agree with the verdicts, but they do not all contain the truth at once in 1 − alpha of
    families.
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
        # p · m and alpha / m are rounded: the p-value must not contradict the decision
        shown = min(adjusted, alpha) if rejecting else max(adjusted, math.nextafter(alpha, 1.0))
        decisions[index] = Decision(shown, level, rejecting)
    return [decisions[index] for index in range(len(ps))]
