"""Verdicts on several differences at once: Holm's procedure and the intervals that agree with it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """The decision of Holm's procedure on one difference.

    p_adjusted: to be held against the level of the whole family; level: the two-sided level at which this one was
    decided, so that an interval of 1 − level excludes 0 exactly where `rejected`.
    """

    p_adjusted: float
    level: float
    rejected: bool


def holm_decisions(ps: Sequence[float], alpha: float = 0.05) -> list[Decision]:
    """Decisions in the order of the ps; the chance of any false one is at most alpha (Holm 1979).

    The j-th smallest of m is decided at alpha / (m − j + 1), and those that are not rejected all at the first level
    that was missed. The intervals agree with the verdicts; they are as wide as the verdicts allow and do not all hold
    their truth at once in 1 − alpha of all families.
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
        # p · m and alpha / m are rounded: what is shown must not contradict the decision
        shown = min(adjusted, alpha) if rejecting else max(adjusted, math.nextafter(alpha, 1.0))
        decisions[index] = Decision(shown, level, rejecting)
    return [decisions[index] for index in range(len(ps))]
