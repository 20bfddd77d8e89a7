"""Simulated test sets of which the truth is known: how often the interval over speakers holds it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr_verdicts.statistics.intervals import speaker_interval

TRUTH = 0.03
"""Errors per word by which the two systems differ."""
Gains = Callable[[np.random.Generator, int], NDArray[np.float64]]


class Scenario(NamedTuple):
    """How speakers and their utterances differ.

    gains: a speaker's own difference in errors per word; noise: standard deviation of an utterance's difference in
    errors; sizes: fewest and most utterances of a speaker, of 5 to 15 words each; nested: of units above speakers, as
    voices, how many speakers each has, who differ by `within` beside the gain of their unit; drawn: what the interval
    takes for independent.
    """

    gains: Gains
    noise: float
    sizes: tuple[int, int]
    nested: int = 1
    within: float = 0.0
    drawn: str = "units"


def normal(deviation: float) -> Gains:
    return lambda generator, speakers: TRUTH + deviation * generator.standard_normal(speakers)


def student(generator: np.random.Generator, speakers: int) -> NDArray[np.float64]:
    """Heavy tails: three degrees of freedom."""
    return TRUTH + 0.02 * generator.standard_t(3, speakers)


def skewed(sigma: float) -> Gains:
    """A gain in proportion to how hard a speaker is, which is log-normal."""
    return lambda generator, speakers: TRUTH * np.exp(sigma * generator.standard_normal(speakers) - sigma**2 / 2)


SCENARIOS = {
    "speakers differ": Scenario(normal(0.02), 1.0, (20, 20)),
    "speakers differ much": Scenario(normal(0.08), 0.5, (20, 20)),
    "uneven speakers": Scenario(normal(0.02), 1.0, (5, 60)),
    "heavy tails": Scenario(student, 0.5, (20, 20)),
    "skewed": Scenario(skewed(0.5), 0.5, (20, 20)),
    "units of three speakers": Scenario(normal(0.04), 1.0, (20, 20), nested=3, within=0.02),
}
"""Where the interval is to hold the truth in 95 % of all test sets."""
CARRIED_BY_FEW = Scenario(skewed(1.0), 0.5, (20, 20))
"""Where it holds it less often: no interval of so few units can know the speaker that is missing."""
SPEAKERS_DRAWN = SCENARIOS["units of three speakers"]._replace(drawn="speakers")
"""Where it is too narrow: the speakers of a unit are no independent draws."""


def hits(scenario: Scenario, speakers: int, trials: int, seed: int | Sequence[int]) -> int:
    """In how many of the trials, each a test set of its own, the interval holds the truth. speakers: or units of them,
    where these are nested.
    """
    generator = np.random.default_rng(seed)
    low, high = scenario.sizes
    unit = np.arange(speakers).repeat(scenario.nested)
    drawn = (unit if scenario.drawn == "units" else np.arange(len(unit))).astype(str)
    count = 0
    for _ in range(trials):
        owner = np.arange(len(unit)).repeat(generator.integers(low, high + 1, len(unit)))
        words = generator.integers(5, 16, len(owner)).astype(float)
        gains = scenario.gains(generator, speakers)[unit]
        if scenario.within:
            gains = gains + scenario.within * generator.standard_normal(len(unit))
        errors = words * gains[owner] + scenario.noise * generator.standard_normal(len(owner))
        interval = speaker_interval(errors, words, drawn[owner], replicates=500)
        count += bool(abs(TRUTH - interval.estimate) <= interval.half_width)
    return count
