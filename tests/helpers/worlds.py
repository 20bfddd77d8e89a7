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
    diverged: share of the runs with a rate of 100 %. set_correlation: of a run's luck on two test sets. shared: share
    of the luck of a run (a variance) that all arms have in common, as decoders of the same models do.
    """

    seeds: tuple[float, ...] = (0.02,)
    effects: tuple[float, ...] = ()
    speakers: int = 20
    words: int = 100
    rate: float = 0.2
    arm_speaker: float = 0.01
    run_speaker: float = 0.01
    diverged: float = 0.0
    set_correlation: float = 0.8
    shared: float = 0.0

    def sweep(self, generator: np.random.Generator, arms: int, runs: int, sets: int = 1) -> list[list[Sample]]:
        """A sample for each arm and test set (arms, sets); the errors of a speaker are Poisson."""
        diverged = generator.random((arms, runs, 1)) < self.diverged
        luck = self._luck(generator, arms, runs)
        samples: list[list[Sample]] = [[] for _ in range(arms)]
        for _ in range(sets):
            words = generator.integers(self.words // 2, self.words * 3 // 2, self.speakers).astype(float)
            hard = self.rate * np.exp(0.4 * generator.standard_normal(self.speakers) - 0.08)
            on_set = np.sqrt(self.set_correlation) * luck + np.sqrt(1 - self.set_correlation) * self._luck(
                generator, arms, runs
            )
            for arm in range(arms):
                rates = hard + self._of(self.seeds, arm) * (on_set if sets > 1 else luck)[arm][:, None]
                rates = rates + self.arm_speaker * generator.standard_normal(self.speakers)
                rates = rates + self.run_speaker * generator.standard_normal((runs, self.speakers))
                rates = np.clip(rates + (self.effects[arm] if arm < len(self.effects) else 0.0), 0.003, None)
                errors = np.where(diverged[arm], words, generator.poisson(rates * words)).astype(float)
                samples[arm].append(Sample.of_errors(errors, words, np.arange(self.speakers).astype(str)))
        return samples

    def _luck(self, generator: np.random.Generator, arms: int, runs: int) -> np.ndarray:
        """Standard normal (arms, runs)."""
        common, own = generator.standard_normal((1, runs)), generator.standard_normal((arms, runs))
        return np.sqrt(self.shared) * common + np.sqrt(1 - self.shared) * own

    @staticmethod
    def _of(values: tuple[float, ...], arm: int) -> float:
        return values[min(arm, len(values) - 1)]


def first_runs(sample: Sample, runs: int) -> Sample:
    """What a look after so many runs sees."""
    return sample.of_runs(np.arange(runs))
