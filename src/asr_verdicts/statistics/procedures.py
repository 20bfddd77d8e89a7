"""Tests with their intervals: at a number of runs that was fixed, or however often one looks."""

import math
from dataclasses import dataclass
from typing import Protocol

from asr_verdicts.statistics.distributions import t_above, t_bound
from asr_verdicts.statistics.estimate import Estimate

ALPHA = 0.05
"""The rate of false claims that verdicts are held to, over all questions on a set."""


class Procedure(Protocol):
    """A test and its interval, which agree: p ≤ level exactly where value ± half width excludes 0."""

    @property
    def name(self) -> str: ...

    @property
    def alpha(self) -> float:
        """The rate of false claims over all questions of a set."""

    @property
    def test(self) -> str:
        """The test in words."""

    @property
    def condition(self) -> str:
        """What its p-value holds under, to follow the p-value in a sentence; "" for nothing to say."""

    def p(self, estimate: Estimate) -> float:
        """Two-sided p."""

    def half_width(self, estimate: Estimate, level: float) -> float:
        """Half of the interval that holds the truth in 1 − `level` of all cases; inf where nothing can be said.

        level: two-sided, such as 0.05.
        """


@dataclass(frozen=True)
class FixedLength:
    """Student's t, for a look whose number of runs was fixed beforehand."""

    name: str = "fixed"
    test: str = "Student's t at a declared number of seeds"
    condition: str = ""
    alpha: float = ALPHA

    def p(self, estimate: Estimate) -> float:
        if not estimate.standard_error:
            return 1.0  # no noise was measured, so nothing is known of it
        return float(2 * t_above(abs(estimate.value) / estimate.standard_error, estimate.degrees))

    def half_width(self, estimate: Estimate, level: float) -> float:
        if not estimate.standard_error:
            return math.inf
        return float(t_bound(level / 2, estimate.degrees) * estimate.standard_error)


@dataclass(frozen=True)
class Anytime:
    """The anytime-valid t test, which holds however often one looks, without a plan (Wang & Ramdas 2025; Lindon, Ham,
    Tingley & Bojinov 2022).

    It weighs the hypothesis of no difference against differences that are normal with a variance of 1 / phi in units of
    a run's own: r = φ / (φ + information), q = (r · level²)^(1 / (ν + 1)), and the interval is
    ± SE · √(ν (1 − q) / (q − r)). phi says at how many runs it is narrowest: 1 about 20, 1/4 about 5.

    The price, for 5 %: ± 5.2 SE with five runs of each of two arms, 3.5 with ten, 3.2 with twenty; with three nothing
    can be said. With phi = 1/4 it is 4.0, 3.5 and 3.3, and 7.2 with three. Student's t has 2.3, 2.1 and 2.0.
    """

    phi: float = 1.0
    name: str = "anytime"
    test: str = "Intervals that hold however often one looks"
    condition: str = ", however often one looks"
    alpha: float = ALPHA

    def p(self, estimate: Estimate) -> float:
        if not estimate.standard_error:
            return 1.0
        r, squared = self._r(estimate), (estimate.value / estimate.standard_error) ** 2
        log_q = math.log((estimate.degrees + r * squared) / (estimate.degrees + squared))
        return min(1.0, math.exp(((estimate.degrees + 1) * log_q - math.log(r)) / 2))

    def half_width(self, estimate: Estimate, level: float) -> float:
        r, degrees = self._r(estimate), estimate.degrees
        q = (r * level**2) ** (1 / (degrees + 1))
        if q <= r or not estimate.standard_error:
            return math.inf
        return estimate.standard_error * math.sqrt(degrees * (1 - q) / (q - r))

    def _r(self, estimate: Estimate) -> float:
        return self.phi / (self.phi + estimate.information)


def equal_level(alpha: float, questions: int) -> float:
    """The two-sided level of the interval that shows equivalence: each of two one-sided tests has half of it."""
    return min(0.999, 2 * alpha / questions)


FIXED = FixedLength()
ASSUMED = FixedLength(
    "assumed",
    "Student's t, if the number of seeds was fixed beforehand",
    ", if the number of seeds was fixed beforehand",
)
"""Nobody has said whether the number of seeds was fixed."""
ANYTIME = Anytime(phi=0.25)
"""Narrowest at about 3 to 10 runs of an arm: ± 7.2 standard errors with three runs of each of two arms, 4.0 with five,
3.5 with ten, 3.3 with twenty.
"""
