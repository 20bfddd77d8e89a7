"""Looks of a plan, and the seeds that would find or exclude a difference, before the first run."""

import math
from collections.abc import Sequence

from asr_verdicts.statistics.distributions import fewest, t_bound


def planned_looks(most: int, first: Sequence[int] = (3, 5, 8, 12, 20)) -> tuple[int, ...]:
    """Runs an arm after which one looks: 3, 5, 8, 12, 20 and on by 1.6, the last one `most`. A look that would come
    shortly before the last one is left out.
    """
    looks = list(first)
    while looks[-1] < most:
        looks.append(round(1.6 * looks[-1]))
    return (*(runs for runs in looks if runs <= 0.85 * most), most)


def seeds_to_find(difference: float, deviation: float, level: float, power: float = 0.8) -> int:
    """Seeds of each of two arms with which Welch's test at one look finds a true difference with this probability.

    deviation: of a run over seeds, in the unit of the difference; speakers add nothing.
    """
    return (
        fewest(lambda runs: _reach(runs, deviation, level / 2, 1 - power) <= abs(difference), MOST_SEEDS) or MOST_SEEDS
    )


def seeds_to_equal(margin: float, deviation: float, level: float, power: float = 0.8) -> int:
    """Seeds of each of two equal arms with which two one-sided tests at `level` each show that they are equal within
    ± margin with this probability, where a run has this standard deviation over seeds and speakers add nothing.
    """
    return fewest(lambda runs: _reach(runs, deviation, level, (1 - power) / 2) <= margin, MOST_SEEDS) or MOST_SEEDS


MOST_SEEDS = 2**20
"""Seeds above which none are proposed."""


def _reach(runs: int, deviation: float, tail: float, miss: float) -> float:
    """The difference whose test has a tail of `tail` and misses with probability `miss`."""
    degrees = 2 * runs - 2
    quantiles = t_bound(tail, degrees) + t_bound(miss, degrees)
    return float(quantiles * deviation * math.sqrt(2 / runs))
