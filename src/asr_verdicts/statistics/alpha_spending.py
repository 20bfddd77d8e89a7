"""Planned looks: how much of the rate of false alarms each look spends, and the test at a look.

This is a group-sequential design (Jennison & Turnbull 1999). The rate α is spent as runs accumulate (Lan & DeMets
1983), by the function of Hwang, Shih & DeCani (1990). The levels belong to a normal statistic with independent
increments and come from recursive integration (Armitage, McPherson & Rowe 1969). The p-value of Student's t at a look
is compared with the level of that look.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from asr_verdicts.statistics.distributions import normal_above, normal_bound, t_above, t_bound
from asr_verdicts.statistics.estimate import Estimate
from asr_verdicts.statistics.power import with_seeds
from asr_verdicts.statistics.procedures import ALPHA

Array = NDArray[np.float64]

# shape of the spending: −4 keeps almost all for the last look (like O'Brien & Fleming), 1 spends early (like Pocock)
GAMMA = -1.0
NODES = 64  # points of the quadrature between the bounds of a look; the levels of 7 looks are then exact to 1e-9
MOST = 0.999  # level above which everything is rejected anyway
LEAST = 1e-14  # smallest level that a look spends; smaller p-values are not needed
SHARES = 16  # the repeated p-value is exact at Holm's levels α / 1 to α / 16, and interpolated between them


def spent(share: float, alpha: float, gamma: float = GAMMA) -> float:
    """The part of alpha that is spent at a share of all planned runs (Hwang, Shih & DeCani 1990)."""
    if not gamma:
        return alpha * share
    return alpha * (1 - math.exp(-gamma * share)) / (1 - math.exp(-gamma))


@functools.lru_cache(maxsize=4096)
def levels(looks: tuple[int, ...], alpha: float, gamma: float = GAMMA) -> tuple[float, ...]:
    """The two-sided level of each look, for a probability alpha of a false alarm at any look.

    looks: runs per arm at each look, increasing.
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
    """The bound that a path crosses at this look, and at none before, with probability `spend`."""
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
    """The points between −1 and 1, and the weights, of Gauss-Legendre quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return nodes, weights


def _normal_density(values: Array) -> Array:
    return np.exp(-0.5 * values**2) / math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class GroupSequential:
    """The test at one of the planned looks; a Procedure (procedures.py).

    looks: runs per arm at each look; look: this one, from 0; alpha: of the whole family.

    Its p is the repeated p-value (Jennison & Turnbull 1984): the smallest α at which this look would reject. Holm's
    correction applies to it as to any other. The interval is the repeated interval, which holds at all looks at once.
    """

    looks: tuple[int, ...]
    look: int
    alpha: float = ALPHA
    gamma: float = GAMMA
    name: str = "sequential"
    test: str = "Student's t at planned looks"
    brief: str = "Student's t"

    def nominal(self, level: float) -> float:
        """The level of this look for the p-value of Student's t. level: over all looks."""
        return levels(self.looks, min(level, MOST), self.gamma)[self.look]

    def p(self, estimate: Estimate) -> float:
        """The repeated p-value, two-sided; 1 if no α rejects at this look."""
        if not estimate.standard_error:
            return 1.0
        observed = float(2 * t_above(abs(estimate.value) / estimate.standard_error, estimate.degrees))
        return _overall_level(self.looks, self.look, self.alpha, self.gamma, observed)

    def half_width(self, estimate: Estimate, level: float) -> float:
        """Half-width of the repeated confidence interval at two-sided `level`, over all looks."""
        if not estimate.standard_error:
            return math.inf
        return float(t_bound(self.nominal(level) / 2, estimate.degrees) * estimate.standard_error)

    def chance(self, estimate: Estimate, level: float, margin: float, equal: float) -> float:
        """The probability, given the data so far, that the last look decides.

        It decides if it shows a difference at `level`, or equality within ± margin at the level `equal`. This is the
        predictive probability of Spiegelhalter, Freedman & Blackburn (1986). The noise of speakers is the same at all
        looks; the noise of seeds falls with their number.
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

        inside = min(margin - same, shown)  # a shown difference may lie within the margin, too
        return below(-shown) + 1 - below(shown) + (below(inside) - below(-inside) if inside > 0 else 0.0)


def _overall_level(looks: tuple[int, ...], look: int, alpha: float, gamma: float, observed: float) -> float:
    """The level over all looks that gives the level `observed` at this look; 1 if none does."""
    whole, at_look = _level_table(looks, alpha, gamma)
    if observed > at_look[look, -1]:
        return 1.0
    return float(np.exp(np.interp(math.log(max(observed, 1e-300)), np.log(at_look[look]), np.log(whole))))


@functools.lru_cache(maxsize=64)
def _level_table(looks: tuple[int, ...], alpha: float, gamma: float) -> tuple[Array, Array]:
    """Levels over all looks, increasing (points,), and the corresponding level of each look (looks, points)."""
    exact = [alpha / share for share in range(1, SHARES + 1)]
    whole = np.unique([*np.geomspace(1e-9, MOST, 24), *exact])
    return whole, np.array([levels(looks, float(level), gamma) for level in whole]).T
