"""The test at a planned look (interim analysis), and the part of α that each look spends.

The design is group-sequential (Jennison & Turnbull 1999). It spends α, the false-alarm rate, as runs accumulate (Lan &
DeMets 1983), with the spending function of Hwang, Shih & DeCani (1990). The level of each look is computed by recursive
integration (Armitage, McPherson & Rowe 1969) for a normal statistic with independent increments. The test at a look
compares the p-value of Student's t with the look's level.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from asr_verdicts.statistics.distributions import normal_above, normal_bound, t_above, t_bound
from asr_verdicts.statistics.estimate import Estimate
from asr_verdicts.statistics.power import with_seeds
from asr_verdicts.statistics.procedures import ALPHA
from asr_verdicts.statistics.sample import Array

# shape of the spending function: −4 saves almost all of α for the last look, 1 spends most of it early
# The first is like O'Brien & Fleming's bounds, the second like Pocock's.
GAMMA = -1.0
NODES = 64  # quadrature points between a look's bounds, enough to compute the levels of 7 looks to 1e-9
MOST = 0.999  # largest overall level for which the levels of single looks are computed
LEAST = 1e-14  # smallest part of α that a look spends, because smaller p-values are not needed
SHARES = 16  # the repeated p-value is exact at Holm's levels α / 1 to α / 16, and interpolated between them


def spent(share: float, alpha: float, gamma: float = GAMMA) -> float:
    """Return how much of alpha is spent after a share of all planned runs (Hwang, Shih & DeCani 1990)."""
    if not gamma:
        return alpha * share
    return alpha * (1 - math.exp(-gamma * share)) / (1 - math.exp(-gamma))


@functools.lru_cache(maxsize=4096)
def levels(looks: tuple[int, ...], alpha: float, gamma: float = GAMMA) -> tuple[float, ...]:
    """Return each look's two-sided level, such that the probability of a false alarm at any look is alpha.

    looks: runs per arm at each look, in increasing order
    """
    result: list[float] = []
    before, points, mass = 0.0, np.empty(0), np.empty(0)
    for number, runs in enumerate(looks):
        total = spent(runs / looks[-1], alpha, gamma)
        spend, before = max(LEAST, total - before), total
        critical = _find_bound(spend, runs, looks[number - 1] if number else 0, points, mass)
        result.append(float(2 * normal_above(critical)))
        bound = critical * math.sqrt(runs)
        nodes, weights = _quadrature()
        inside = bound * nodes
        if number:
            step = math.sqrt(runs - looks[number - 1])
            density = _normal_density((inside[:, None] - points[None]) / step) / step @ mass
        else:
            density = _normal_density(inside / math.sqrt(runs)) / math.sqrt(runs)
        points, mass = inside, density * bound * weights
    return tuple(result)


def _find_bound(spend: float, runs: int, earlier: int, points: Array, mass: Array) -> float:
    """Return the bound that the statistic first crosses at this look with probability `spend`."""
    if not earlier:
        return normal_bound(spend / 2)
    step = math.sqrt(runs - earlier)

    def excess(critical: float) -> float:
        bound = critical * math.sqrt(runs)
        crossing = normal_above((bound - points) / step) + normal_above((bound + points) / step)
        return float(crossing @ mass) - spend

    return float(optimize.brentq(excess, 0.0, 40.0, xtol=1e-12))


@functools.cache
def _quadrature() -> tuple[Array, Array]:
    """Return the points of Gauss-Legendre quadrature, between −1 and 1, and their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return nodes, weights


def _normal_density(values: Array) -> Array:
    return np.exp(-0.5 * values**2) / math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class GroupSequential:
    """The test at one planned look, which implements the protocol Procedure.

    - looks: runs per arm at each look
    - look: index of this look, from 0
    - alpha: rate of false claims over all questions
    - gamma: shape of the spending function

    The p-value is the repeated p-value (Jennison & Turnbull 1984): the smallest α at which this look would reject.
    Holm's correction can be applied to the repeated p-value as to any other p-value. The interval is the repeated
    confidence interval, which holds at all looks at once.
    """

    looks: tuple[int, ...]
    look: int
    alpha: float = ALPHA
    gamma: float = GAMMA
    name: str = "sequential"
    test: str = "Student's t at planned looks"
    brief: str = "Student's t"

    def p(self, estimate: Estimate) -> float:
        """Return the two-sided repeated p-value; 1 if this look rejects at no α."""
        if not estimate.standard_error:
            return 1.0
        observed = float(2 * t_above(abs(estimate.value) / estimate.standard_error, estimate.degrees))
        overall, at_look = _level_table(self.looks, self.alpha, self.gamma)
        if observed > at_look[self.look, -1]:
            return 1.0
        return float(np.exp(np.interp(math.log(max(observed, 1e-300)), np.log(at_look[self.look]), np.log(overall))))

    def half_width(self, estimate: Estimate, level: float) -> float:
        """Return the half-width of the repeated confidence interval. level: two-sided level over all looks."""
        if not estimate.standard_error:
            return math.inf
        nominal = levels(self.looks, min(level, MOST), self.gamma)[self.look]  # level of Student's t at this look
        return float(t_bound(nominal / 2, estimate.degrees) * estimate.standard_error)

    def chance(self, estimate: Estimate, level: float, margin: float, equal: float) -> float:
        """Return the probability, given the data so far, of a verdict at the last look.

        A verdict is a difference at the level `level`, or equivalence within ± margin at the level `equal`. This is the
        predictive probability of Spiegelhalter, Freedman & Blackburn (1986). Speaker noise is the same at all looks,
        while seed noise falls with the number of seeds.
        """
        seeds = estimate.over_seeds
        if seeds is None or not math.isfinite(estimate.standard_error):
            return 0.0
        most, last = self.looks[-1], GroupSequential(self.looks, len(self.looks) - 1, self.alpha, self.gamma)
        final = with_seeds(estimate, most)
        shown, same = last.half_width(final, level), last.half_width(final, equal)
        move = math.sqrt(seeds.variance * max(0.0, 1 - self.looks[self.look] / most))
        if not move:
            return float(abs(estimate.value) > shown or abs(estimate.value) + same < margin)

        def below(bound: float) -> float:
            return float(t_above((estimate.value - bound) / move, seeds.degrees))

        inside = min(margin - same, shown)  # do not count a shown difference that lies within the margin twice
        return below(-shown) + 1 - below(shown) + (below(inside) - below(-inside) if inside > 0 else 0.0)


@functools.lru_cache(maxsize=64)
def _level_table(looks: tuple[int, ...], alpha: float, gamma: float) -> tuple[Array, Array]:
    """Return increasing overall levels, (points,), and each look's level for each of them, (looks, points)."""
    exact = [alpha / share for share in range(1, SHARES + 1)]
    whole = np.unique([*np.geomspace(1e-9, MOST, 24), *exact])
    return whole, np.array([levels(looks, float(level), gamma) for level in whole]).T
