"""Analyses of invented sweeps: how often equal arms are called different, and how often an effect is found."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from asr_verdicts.scales import POINTS, RELATIVE
from asr_verdicts.statistics.estimate import Estimate, contrast_estimate, paired_estimate
from asr_verdicts.statistics.multiple_testing import holm_decisions
from asr_verdicts.statistics.procedures import ANYTIME, FixedLength, Procedure
from asr_verdicts.statistics.sample import Sample


@dataclass(frozen=True)
class World:
    """How arms, runs and speakers differ, as fractions of the words.

    By arm, the last for all others: seeds, the standard deviation of a run's rate; diverged and fails, the shares of
    runs with 100 % and with twice the rate. effects: what is added to an arm's rate. arm_speaker, run_speaker: standard
    deviation of how they suit a speaker. carried: the log-normal σ of the speakers. relative: all these are factors.
    shared: the variance of a run's luck that all arms have in common; start: deviation that all runs of an arm share.
    """

    seeds: tuple[float, ...] = (0.02,)
    effects: tuple[float, ...] = ()
    speakers: int = 20
    words: int = 100
    rate: float = 0.2
    arm_speaker: float = 0.01
    run_speaker: float = 0.01
    diverged: tuple[float, ...] = (0.0,)
    fails: tuple[float, ...] = (0.0,)
    carried: float = 0.4
    relative: bool = False
    shared: float = 0.0
    start: float = 0.0

    def sweep(self, generator: np.random.Generator, arms: int, runs: int, test_set: int | None = None) -> list[Sample]:
        """A sample for each arm; the errors of a speaker are Poisson. test_set: the seed of the speakers and of how
        arms suit them; by default they are drawn like everything else.
        """
        of_set = generator if test_set is None else np.random.default_rng(test_set)
        words = of_set.integers(self.words // 2, self.words * 3 // 2, self.speakers).astype(float)
        spread = self.carried * of_set.standard_normal(self.speakers)
        hard = self.rate * np.exp(spread - self.carried**2 / 2)
        common = np.sqrt(self.shared) * generator.standard_normal((runs, 1))
        samples = []
        for arm in range(arms):
            luck = common + np.sqrt(1 - self.shared) * generator.standard_normal((runs, 1))
            effect = self.effects[arm] if arm < len(self.effects) else 0.0
            effect += self.start * generator.standard_normal() if self.start else 0.0
            suits = self.arm_speaker * of_set.standard_normal(self.speakers)
            suits = suits + self.run_speaker * generator.standard_normal((runs, self.speakers))
            if self.relative:
                rates = hard * (1 + effect) * np.clip(1 + self._of(self.seeds, arm) * luck, 0.1, None) * np.exp(suits)
            else:
                rates = np.clip(hard + self._of(self.seeds, arm) * luck + suits + effect, 0.003, None)
            if of_arm := self._of(self.fails, arm):
                rates = rates * np.where(generator.random((runs, 1)) < of_arm, 2.0, 1.0)
            diverged = generator.random((runs, 1)) < self._of(self.diverged, arm)
            errors = np.where(diverged, words, generator.poisson(rates * words)).astype(float)
            samples.append(Sample.of_errors(errors, words, np.arange(self.speakers).astype(str)))
        return samples

    @staticmethod
    def _of(values: tuple[float, ...], arm: int) -> float:
        return values[min(arm, len(values) - 1)]


def first_runs(sample: Sample, runs: int) -> Sample:
    """What a look after so many runs sees."""
    return sample.of_runs(np.arange(runs))


@dataclass(frozen=True)
class Design:
    """A sweep in a world, and what is asked of it.

    question: every other arm against the baseline (trimmed or not, or as decoders of the same models), or the
    interaction of four arms. looks: runs after which one looks and stops at a finding, by the test that holds at any
    time; without them one looks once. effect: of arm 1 where the power is measured, of the fourth in an interaction.
    ratio: on the relative scale. baseline: the runs of arm 0, where it has another number.
    """

    world: World
    runs: int
    question: Literal["arms", "trimmed", "decoders", "interaction", "ratio", "interaction of ratios"] = "arms"
    arms: int = 2
    looks: tuple[int, ...] = ()
    effect: float = 0.04
    baseline: int | None = None

    def with_effect(self) -> "Design":
        none = (0.0,) * 4
        given = self.world.effects or none
        place = 3 if self.question.startswith("interaction") else 1
        effects = tuple(effect + self.effect * (arm == place) for arm, effect in enumerate(given))
        return replace(self, world=replace(self.world, effects=effects))


EVERY_SEED = tuple(range(3, 31))
LOOKS = (3, 5, 10, 20)
UNEQUAL = World(seeds=(0.02, 0.06, 0.02))
"""Arm 1 is three times as noisy as the others."""
NOISY_FEW = World(seeds=(0.02, 0.06))
FACTORS = World(
    seeds=(0.035,), arm_speaker=0.02, run_speaker=0.02, speakers=40, effects=(0.0, 0.2, 0.4, 0.68), relative=True
)
"""Two factors that multiply by 1.2 and 1.4, and do not interact on the relative scale."""
CARRIED = World(seeds=(0.035,), arm_speaker=0.05, run_speaker=0.05, speakers=40, carried=1.5, relative=True)
"""Few speakers carry the errors."""
NOISY_BASELINE = World(seeds=(0.06, 0.02))
DECODERS = World(seeds=(0.06,), shared=0.99, arm_speaker=0.005, run_speaker=0.005)
MAIN_EFFECTS = World(effects=(0.0, 0.03, 0.05, 0.08))
"""Two factors that add 3 and 5 points, and no interaction."""

DESIGNS = {
    **{f"equal arms, {n} seeds": Design(World(), n) for n in (2, 3, 5, 10)},
    "little seed noise, 10 speakers, 3": Design(World((0.005,), speakers=10), 3),
    **{f"one arm × 3, {n} seeds": Design(UNEQUAL, n, effect=0.08) for n in (2, 3, 5, 10)},
    "one arm × 3, 5 speakers, 3 seeds": Design(replace(UNEQUAL, speakers=5), 3, effect=0.08),
    **{f"{k} speakers, 10 seeds": Design(World(speakers=k), 10, effect=0.06) for k in (3, 5)},
    "5 % diverged, 10 seeds": Design(World(diverged=(0.05,)), 10),
    "5 % diverged, trimmed, 10 seeds": Design(World(diverged=(0.05,)), 10, "trimmed"),
    **{f"8 arms, {n} seeds": Design(World(), n, arms=9, effect=0.08) for n in (3, 5)},
    "8 arms, noisy baseline": Design(NOISY_BASELINE, 3, arms=9, effect=0.08),
    **{f"decoders, {n} models": Design(DECODERS, n, "decoders", effect=0.02) for n in (2, 3, 6)},
    "2 seeds against 18": Design(World(), 2, baseline=18),
    "2 seeds of an arm × 3 against 8": Design(NOISY_FEW, 2, baseline=8),
    "interaction of factors, ratio": Design(FACTORS, 5, "interaction of ratios", arms=4, effect=0.2),
    "few speakers carry, points": Design(CARRIED, 8, effect=0.2),
    "few speakers carry, ratio": Design(CARRIED, 8, "ratio", effect=0.2),
    "10 of them, points": Design(replace(CARRIED, speakers=10), 8, effect=0.2),
    "10 of them, ratio": Design(replace(CARRIED, speakers=10), 8, "ratio", effect=0.2),
    "decoders, one model": Design(replace(DECODERS, shared=1.0), 1, "decoders", effect=0.02),
    **{f"interaction, {n} seeds": Design(MAIN_EFFECTS, n, "interaction", arms=4, effect=0.08) for n in (3, 5)},
    "looks at 3, 5, 10, 20": Design(World(), 20, looks=LOOKS),
    "looks, 40 speakers, every seed to 30": Design(World(speakers=40), 30, looks=EVERY_SEED),
    "looks, 3 speakers, every seed to 30": Design(World((0.005,), speakers=3), 30, looks=EVERY_SEED),
    "looks, one arm × 3, every seed to 30": Design(UNEQUAL, 30, looks=EVERY_SEED, effect=0.08),
}
"""What verdicts rest on; alarms are at most 5 % in each."""

ONE_CHECKPOINT = {
    f"5 seeds of one checkpoint an arm, {words * 20:,} words": Design(World((0.005,), start=0.015, words=words), 5)
    for words in (100, 400)
}
"""Arms whose seeds were fine-tuned from one checkpoint each. Checkpoints of the same kind differ, and no statistics of
these runs can see it: false alarms are far above 5 %, and verdicts say so.
"""


def alarms(design: Design, sweeps: int, seed: int | Sequence[int]) -> int:
    """In how many sweeps any two equal arms are called different."""
    return _count(design, sweeps, seed, effect=False)


def finds(design: Design, sweeps: int, seed: int | Sequence[int]) -> int:
    """In how many sweeps the effect is found."""
    return _count(design.with_effect(), sweeps, seed, effect=True)


def _count(design: Design, sweeps: int, seed: int | Sequence[int], effect: bool) -> int:
    generator = np.random.default_rng(seed)
    count = 0
    for _ in range(sweeps):
        samples = design.world.sweep(generator, design.arms, max(design.runs, design.baseline or 0))
        rejected = _rejected(design, samples)
        count += rejected[0] if effect else any(rejected)
    return count


def _rejected(design: Design, samples: list[Sample]) -> list[bool]:
    """Which of the differences are called so, at one look or at any of several."""
    procedure: Procedure = ANYTIME if design.looks else FixedLength()
    for runs in design.looks or (design.runs,):
        first, *rest = samples
        cut = [first_runs(first, design.baseline or runs), *(first_runs(sample, runs) for sample in rest)]
        estimates = _estimates(design, cut)
        rejected = [decision.rejected for decision in holm_decisions([procedure.p(e) for e in estimates])]
        if any(rejected):
            return rejected
    return rejected


def _estimates(design: Design, samples: list[Sample]) -> list[Estimate]:
    baseline, *others = samples
    if design.question.startswith("interaction"):
        scale = POINTS if design.question == "interaction" else RELATIVE
        measured = [contrast_estimate(list(zip((1.0, -1.0, -1.0, 1.0), samples, strict=True)), scale=scale)]
    elif design.question == "decoders":
        measured = [paired_estimate([(1.0, arm), (-1.0, baseline)]) for arm in others]
    else:
        trimmed, scale = design.question == "trimmed", RELATIVE if design.question == "ratio" else POINTS
        measured = [contrast_estimate([(1.0, arm), (-1.0, baseline)], trimmed=trimmed, scale=scale) for arm in others]
    return [estimate for estimate in measured if estimate is not None]
