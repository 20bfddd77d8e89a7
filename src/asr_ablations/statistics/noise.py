"""Where the noise of a difference comes from, and what its parts add up to."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf, sqrt


@dataclass(frozen=True)
class Part:
    """The standard error that one source of noise would give alone, and its degrees of freedom."""

    standard_error: float
    degrees: float

    @property
    def variance(self) -> float:
        return self.standard_error**2


@dataclass(frozen=True)
class RunNoise:
    """What the runs of one arm add to the variance of a weighted sum of means.

    runs: their number n; degrees: those of the variance, n − 1, or fewer with trimming; variance: weight² times the
    variance of a single run's rate, so that the mean of n runs adds variance / n; shared: the part of it that comes
    from seeds that differ by speaker, which the bootstrap over speakers holds too.
    """

    runs: int
    degrees: float
    variance: float
    shared: float = 0.0


def over_seeds(arms: Sequence[RunNoise]) -> Part:
    """The noise of seeds alone, with Welch's degrees of freedom."""
    variances = [(arm.variance / arm.runs, arm.degrees) for arm in arms]
    total = sum(variance for variance, _ in variances)
    if not total:
        return Part(0.0, sum(degrees for _, degrees in variances))
    return Part(sqrt(total), total**2 / sum(variance**2 / degrees for variance, degrees in variances))


def combined(arms: Sequence[RunNoise], speakers: Part | None) -> Part:
    """The noise of seeds and speakers together.

    They are two crossed sources: their variances are added and the shared part, which is in both, is taken off once
    (Cameron, Gelbach & Miller 2011). The result is never below either. Its degrees of freedom are Satterthwaite's
    (1946), in which the shared part counts as a further source of noise although it is subtracted, and never fewer than
    those of the poorer of the two sources.
    """
    seeds = over_seeds(arms)
    if speakers is None:
        return seeds
    if not seeds.variance or isinf(speakers.variance):
        return speakers
    shared = sum(arm.shared / arm.runs for arm in arms)
    variance = max(seeds.variance + speakers.variance - shared, seeds.variance, speakers.variance)
    uncertainty = seeds.variance**2 / seeds.degrees + speakers.variance**2 / speakers.degrees
    uncertainty += sum((arm.shared / arm.runs) ** 2 / (arm.degrees * speakers.degrees) for arm in arms)
    degrees = max(variance**2 / uncertainty, min(seeds.degrees, speakers.degrees))
    return Part(sqrt(variance), degrees)
