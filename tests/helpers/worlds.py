"""Invented sweeps of which the truth is known: how often equal arms are called different."""

from dataclasses import dataclass

import numpy as np

from asr_ablations.statistics.sample import Sample


@dataclass(frozen=True)
class World:
    """How arms, runs and speakers differ; everything as a fraction of the words.

    seeds: standard deviation of a run's rate over seeds, by arm, the last one for all others. Arm 0 is the baseline.
    effects: how much worse each arm is than the baseline, by arm, 0 for all others. speakers: of the test set, each
    with about `words` words. arm_speaker, run_speaker: standard deviation of how an arm and a run suit a speaker.
    diverged: share of the runs with a rate of 100 %. shared: share of the luck of a run (a variance) that all arms have
    in common, as decoders of the same models do.
    """

    seeds: tuple[float, ...] = (0.02,)
    effects: tuple[float, ...] = ()
    speakers: int = 20
    words: int = 100
    rate: float = 0.2
    arm_speaker: float = 0.01
    run_speaker: float = 0.01
    diverged: float = 0.0
    shared: float = 0.0

    def sweep(self, generator: np.random.Generator, arms: int, runs: int) -> list[Sample]:
        """A sample for each arm; the errors of a speaker are Poisson."""
        words = generator.integers(self.words // 2, self.words * 3 // 2, self.speakers).astype(float)
        hard = self.rate * np.exp(0.4 * generator.standard_normal(self.speakers) - 0.08)
        common = np.sqrt(self.shared) * generator.standard_normal((runs, 1))
        samples = []
        for arm in range(arms):
            luck = common + np.sqrt(1 - self.shared) * generator.standard_normal((runs, 1))
            rates = hard + self._of(self.seeds, arm) * luck
            rates = rates + self.arm_speaker * generator.standard_normal(self.speakers)
            rates = rates + self.run_speaker * generator.standard_normal((runs, self.speakers))
            rates = np.clip(rates + (self.effects[arm] if arm < len(self.effects) else 0.0), 0.003, None)
            diverged = generator.random((runs, 1)) < self.diverged
            errors = np.where(diverged, words, generator.poisson(rates * words)).astype(float)
            samples.append(Sample.of_errors(errors, words, np.arange(self.speakers).astype(str)))
        return samples

    @staticmethod
    def _of(values: tuple[float, ...], arm: int) -> float:
        return values[min(arm, len(values) - 1)]


def first_runs(sample: Sample, runs: int) -> Sample:
    """What a look after so many runs sees."""
    return sample.of_runs(np.arange(runs))
