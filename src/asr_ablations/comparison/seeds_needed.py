"""The looks of a plan, and the seeds needed to find or exclude a difference, before the first run."""

import math
from collections.abc import Sequence

from asr_verdicts.statistics.distributions import fewest, t_bound


def planned_looks(most: int, first: Sequence[int] = (3, 5, 8, 12, 20)) -> tuple[int, ...]:
    """Return the numbers of runs per arm at which to look, up to `most`. After 3, 5, 8, 12 and 20 they increase by a
    factor of 1.6. A look shortly before the last one is left out.
    """
    looks = list(first)
    while looks[-1] < most:
        looks.append(round(1.6 * looks[-1]))
    return (*(runs for runs in looks if runs <= 0.85 * most), most)


def seeds_to_find(difference: float, deviation: float, level: float, power: float = 0.8) -> int:
    """Return the seeds per arm with which Welch's test at one look finds a true difference with probability `power`.

    deviation: of a run over seeds, in the difference's unit. Variation between speakers is ignored.
    """
    return (
        fewest(lambda runs: _reach(runs, deviation, level / 2, 1 - power) <= abs(difference), MOST_SEEDS) or MOST_SEEDS
    )


def seeds_to_equal(margin: float, deviation: float, level: float, power: float = 0.8) -> int:
    """Return the seeds per arm with which equal arms are shown to be equal within ± margin with probability `power`.
    The two one-sided tests each have this `level`. deviation: of a run over seeds, ignoring variation between speakers.
    """
    return fewest(lambda runs: _reach(runs, deviation, level, (1 - power) / 2) <= margin, MOST_SEEDS) or MOST_SEEDS


MOST_SEEDS = 2**20
"""Largest number of seeds that is proposed."""


def _reach(runs: int, deviation: float, tail: float, miss: float) -> float:
    """Return the difference that a test with tail probability `tail` misses with probability `miss`."""
    degrees = 2 * runs - 2
    quantiles = t_bound(tail, degrees) + t_bound(miss, degrees)
    return float(quantiles * deviation * math.sqrt(2 / runs))
