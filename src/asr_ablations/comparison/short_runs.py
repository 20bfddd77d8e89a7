"""Whether short runs tell what long ones do: the arms of one sweep beside the same arms, trained longer."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from asr_ablations.comparison.contrast import SHOWN, Verdict
from asr_ablations.comparison.result import Comparison
from asr_ablations.runs.record import RunRecord
from asr_ablations.statistics.distributions import t_bound
from asr_ablations.statistics.intervals import Range
from asr_ablations.statistics.noise import over_seeds, run_noise
from asr_ablations.tools.errors import UsageError, choices

DRAWS = 2000
"""Draws of seeds for the interval of τ."""

OPPOSITE = {"better", "worse"}

Rates = Mapping[str, NDArray[np.float64]]
"""The rates (runs,) of each arm, as fractions."""


@dataclass(frozen=True)
class Transfer:
    """What the order and the differences of short runs say about those of long ones, with 95 % intervals over seeds.

    tau: Kendall's τ-b between the arms' mean rates, the baseline's among them. slope: the long difference from the
    baseline per unit of the short one, by least squares through the origin. kept: of the arms beside the baseline,
    those whose difference has the same sign in both.
    """

    tau: Range
    slope: Range
    kept: int
    arms: int


Pair = tuple[Verdict, Verdict]
"""The verdicts of the short and of the long runs on one arm."""


@dataclass(frozen=True)
class ShortRuns:
    """Two comparisons of the same arms on a set."""

    set: str
    baseline: str
    verdicts: dict[str, Pair]
    transfer: Transfer

    @property
    def shown(self) -> list[Pair]:
        """The arms that short runs call better or worse."""
        return [pair for pair in self.verdicts.values() if pair[0].outcome in SHOWN]

    @property
    def reversed(self) -> list[str]:
        """The arms that are better in one and worse in the other."""
        return [arm for arm, (short, long) in self.verdicts.items() if {short.outcome, long.outcome} == OPPOSITE]


def short_runs(short: Comparison, long: Comparison) -> ShortRuns:
    """Raises UsageError where the two have no arm in common beside the same baseline, or no set."""
    if short.baseline != long.baseline:
        raise choices("the baseline of the long runs", long.baseline, f"{short.baseline}, that of the short ones")
    if short.set != long.set or short.metric != long.metric:
        raise UsageError(
            f"the short runs are compared by {short.metric} on {short.set}, the long ones by {long.metric} on "
            f"{long.set}; expected the same, by --metric and --set"
        )
    later = {verdict.contrast.arm: verdict for verdict in long.answer}
    verdicts = {
        verdict.contrast.arm: (verdict, later[verdict.contrast.arm])
        for verdict in short.answer
        if verdict.contrast.arm in later
    }
    if not verdicts:
        raise UsageError(f"{short.title} and {long.title} have no arm in common beside the baseline {short.baseline}")
    names = [short.baseline, *verdicts]
    before, after = [
        {arm.name: _rates(arm.results, short.set, short.metric) for arm in comparison.arms if arm.name in names}
        for comparison in (short, long)
    ]
    return ShortRuns(short.set, short.baseline, verdicts, transfer(before, after, short.baseline))


def _rates(runs: Sequence[RunRecord], set_: str, metric: str) -> NDArray[np.float64]:
    """A run that diverged has every word wrong."""
    return np.array([1.0 if run.diverged_at is not None else run.value(set_, metric) for run in runs], dtype=float)


def transfer(short: Rates, long: Rates, baseline: str) -> Transfer:
    """Both have the same arms. The interval of τ has the percentiles over DRAWS in which
    the seeds of each arm are drawn anew, in short and long runs apart; that of the slope is Student's (delta method):
    draws of five seeds held 88 % where they should hold 95. It is nan where an arm has a single run. The arms are those
    that were asked about, and are not drawn.
    """
    arms = [baseline, *(arm for arm in short if arm != baseline)]
    before, after = (np.array([rates[arm].mean() for arm in arms]) for rates in (short, long))
    random = np.random.default_rng(0)
    taus = []
    for _ in range(DRAWS):
        drawn = [
            np.array([random.choice(rates[arm], len(rates[arm])).mean() for arm in arms]) for rates in (short, long)
        ]
        taus.append(_tau(*drawn))
    tau = _tau(before, after)
    return Transfer(
        tau=Range(tau, *map(float, np.nanpercentile(taus, [2.5, 97.5]))),
        slope=_slope(before, after, [rates[arm] for rates in (short, long) for arm in arms]),
        kept=int(np.sum(np.sign(before[1:] - before[0]) == np.sign(after[1:] - after[0]))),
        arms=len(arms) - 1,
    )


def _tau(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    return float(kendalltau(before, after).statistic)


def _slope(before: NDArray[np.float64], after: NDArray[np.float64], rates: Sequence[NDArray[np.float64]]) -> Range:
    """From the arms' means (arms,), the baseline's first, in short and in long runs, and the rates (runs,) of each."""
    x, y = before[1:] - before[0], after[1:] - after[0]
    square = float(x @ x)
    if not square:
        return Range(math.nan, math.nan, math.nan)
    slope = float(x @ y) / square
    if min(map(len, rates)) < 2:
        return Range(slope, math.nan, math.nan)
    by_short, by_long = (y - 2 * slope * x) / square, x / square  # what a mean's change does to the slope
    weights = np.array([-by_short.sum(), *by_short, -by_long.sum(), *by_long])
    noise = over_seeds([run_noise(weight * runs) for weight, runs in zip(weights, rates, strict=True)])
    half = t_bound(0.025, noise.degrees) * noise.standard_error
    return Range(slope, slope - half, slope + half)
