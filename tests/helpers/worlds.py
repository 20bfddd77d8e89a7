"""Invented sweeps of which the truth is known: how often equal arms are called different."""

from dataclasses import dataclass

import numpy as np

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
