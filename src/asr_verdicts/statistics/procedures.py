"""Tests and their intervals, either for a number of runs fixed in advance or valid at any number of looks."""

import math
from dataclasses import dataclass
from typing import Protocol

from asr_verdicts.statistics.distributions import t_above, t_bound
from asr_verdicts.statistics.estimate import Estimate

ALPHA = 0.05  # rate of false claims over all questions on a test set


class Procedure(Protocol):
    """A test and an interval that agree: p ≤ level exactly if value ± half-width excludes 0."""

    @property
    def name(self) -> str: ...

    @property
    def alpha(self) -> float:
        """The rate of false claims over all questions on a test set."""

    @property
    def test(self) -> str:
        """The name of the test and its conditions, for reports."""

    @property
    def brief(self) -> str:
        """The short name of the test, for sentences with a p-value."""

    def p(self, estimate: Estimate) -> float:
        """Return the two-sided p-value of the hypothesis of no difference."""

    def half_width(self, estimate: Estimate, level: float) -> float:
        """Return the half-width of the two-sided 1 − `level` confidence interval; inf if the interval is infinite."""


@dataclass(frozen=True)
class FixedLength:
    """Student's t test for a number of runs that was fixed in advance."""

    name: str = "fixed"
    test: str = "Student's t at a declared number of seeds"
    brief: str = "Student's t"
    alpha: float = ALPHA

    def p(self, estimate: Estimate) -> float:
        if not estimate.standard_error:
            return 1.0  # the noise is unknown
        return float(2 * t_above(abs(estimate.value) / estimate.standard_error, estimate.degrees))

    def half_width(self, estimate: Estimate, level: float) -> float:
        if not estimate.standard_error:
            return math.inf
        return float(t_bound(level / 2, estimate.degrees) * estimate.standard_error)


@dataclass(frozen=True)
class Anytime:
    """The anytime-valid t test, which is valid at any number of looks (Wang & Ramdas 2025; Lindon et al. 2022).

    It compares the hypothesis of no difference with a normal distribution of differences, whose variance is 1 / φ times
    the variance of a run. The interval is ± SE · √(ν (1 − q) / (q − r)), with ν degrees of freedom, r = φ / (φ +
    information) and q = (r · level²)^(1 / (ν + 1)). At about 20 runs per arm, phi = 1 gives the narrowest interval;
    at about 6 runs, 1/4 does. docs/statistics.md compares the interval's width with that of Student's t.
    """

    phi: float = 1.0
    name: str = "anytime"
    test: str = "Intervals that hold however often one looks"
    brief: str = "Anytime-valid t test"
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
    """Return the two-sided level of the equivalence interval, which is twice the level of each one-sided test."""
    return min(0.999, 2 * alpha / questions)


FIXED = FixedLength()
ASSUMED = FixedLength(
    "assumed",
    "Student's t, if the number of seeds was fixed beforehand",
    "Student's t, if the number of seeds was fixed beforehand",
)  # used if it is unknown whether the number of seeds was fixed in advance
ANYTIME = Anytime(phi=0.25)  # gives narrower intervals than phi = 1 with up to 10 runs per arm
