"""Sweeps with a plan, invented: the real plan and its real looks over runs of which the truth is known."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from asr_ablations.comparison.seed_noise import planned_looks
from asr_verdicts.arms import Arm
from asr_verdicts.config import OWN
from asr_verdicts.decide import Family, decide_all
from asr_verdicts.plan import PlannedArm, VerdictPlan
from asr_verdicts.planned_looks import follow
from asr_verdicts.questions import against_baseline
from asr_verdicts.record import NO_SUMMARY, Record, SetResult, Summary
from asr_verdicts.statistics.procedures import FixedLength
from asr_verdicts.verdict import SHOWN, Outcome, Question, Verdict
from tests.helpers.false_alarms import World

SET = "test"


@dataclass(frozen=True)
class Setting:
    """A world, and the plan that is followed in it. most: seeds of an arm; margin: a fraction."""

    world: World
    arms: int = 2
    most: int = 20
    margin: float = 0.02
    robust: bool = True
    paired: bool = False
    hopeless: float = 0.0

    def plan(self) -> VerdictPlan:
        names = [f"arm {number}" for number in range(self.arms)]
        return VerdictPlan(
            arms=[PlannedArm({OWN: name}, [f"choice={name}"], {"choice": name}) for name in names],
            baseline=names[0], metric="wer", set=SET, contrasts=names[1:], margin=self.margin, alpha=0.05,
            seeds=list(range(self.most)), looks=list(planned_looks(self.most)), gamma=-1.0, robust=self.robust,
            paired=self.paired, hopeless=self.hopeless, belongs=["seed"], made="2000-01-01T00:00:00+00:00",
        )  # fmt: skip

    def questions(self) -> list[Question]:
        arms = [Arm(arm.name, [], levels=arm.levels) for arm in self.plan().arms]
        return against_baseline(arms, arms[0])


@dataclass
class Ends:
    """How the questions of many sweeps ended, by arm, with runs, and sweeps that called equal arms different."""

    sweeps: int = 0
    by_arm: dict[str, Counter[Outcome]] = field(default_factory=dict)
    runs: int = 0
    alarms: int = 0

    def share(self, arm: int, outcome: Outcome) -> float:
        """Of the sweeps in which the question on this arm ended so."""
        return self.by_arm[f"arm {arm}"][outcome] / self.sweeps

    @property
    def alarm_rate(self) -> float:
        return self.alarms / self.sweeps

    @property
    def mean_runs(self) -> float:
        return self.runs / self.sweeps


def simulate(setting: Setting, sweeps: int, seed: int | Sequence[int], ends: Ends | None = None) -> Ends:
    """Follow the plan in so many sweeps, and count how they end; ends: earlier ones, which they are added to."""
    generator = np.random.default_rng(seed)
    plan, questions, ends = setting.plan(), setting.questions(), ends or Ends()
    effects = {f"arm {number}": effect for number, effect in enumerate(setting.world.effects)}
    for _ in range(sweeps):
        course = follow(plan, invented(setting, generator), questions, describe=False)
        assert course.ended
        for contrast in course.verdicts:
            ends.by_arm.setdefault(contrast.arm, Counter())[contrast.outcome] += 1
        ends.sweeps, ends.runs = ends.sweeps + 1, ends.runs + sum(course.runs(plan).values())
        ends.alarms += any(one.outcome in SHOWN and not effects.get(one.arm, 0.0) for one in course.verdicts)
    return ends


def invented(setting: Setting, generator: np.random.Generator, test_set: int | None = None) -> list[Arm]:
    """Arms with errors of the world, a row for each speaker. test_set: seed of speakers that sweeps share."""
    samples = setting.world.sweep(generator, setting.arms, setting.most, test_set)
    arms = []
    for number, (planned, sample) in enumerate(zip(setting.plan().arms, samples, strict=True)):
        assert sample.errors is not None
        assert sample.totals is not None
        results, lost = [], []
        for seed, errors in enumerate(sample.errors):
            run = _run(planned.name, number, seed, errors, sample.totals)
            if (errors >= sample.totals).all():
                lost.append(replace(run, diverged_at=1, utterances=[], summary=NO_SUMMARY))
            else:
                results.append(run)
        arms.append(Arm(planned.name, results, lost, levels=planned.levels))
    return arms


def _run(name: str, number: int, seed: int, errors: np.ndarray, words: np.ndarray) -> Record:  # type: ignore[type-arg]
    rows = [
        {
            "set": SET, "id": f"u{speaker:03d}", "speaker": f"s{speaker}", "reference": "", "hypothesis": "",
            "words": int(total), "substitutions": int(wrong), "deletions": 0, "insertions": 0,
        }
        for speaker, (wrong, total) in enumerate(zip(errors, words, strict=True))
    ]  # fmt: skip
    result = SetResult(wer=float(errors.sum() / words.sum()), words=int(words.sum()))
    return Record(
        folder=Path(f"{number}-{seed}"), config={"seed": seed, "choice": name},
        overrides=[f"arm={name}", f"seed={seed}"], summary=Summary(sets={SET: result}, test_sets=[SET]),
        utterances=rows, model=f"{number}-{seed}/last.ckpt",
    )  # fmt: skip


PURE = World(seeds=(0.02,), speakers=10, words=200_000, arm_speaker=0.0, run_speaker=0.0)
ONE, TWO, THREE = 0.02, 0.04, 0.06  # standard deviations of a run; the margin is one of them
BAD_SEEDS = replace(PURE, fails=(0.1,))  # a tenth of the runs has twice the WER

SETTINGS = {
    "no effect": Setting(PURE), "1 sd": Setting(replace(PURE, effects=(0.0, ONE))),
    "2 sd": Setting(replace(PURE, effects=(0.0, TWO))), "arm × 3": Setting(replace(PURE, seeds=(0.02, 0.06))),
    "5 % diverged, means": Setting(replace(PURE, diverged=(0.05,)), robust=False),
    "5 % diverged": Setting(replace(PURE, diverged=(0.05,))),
    "5 % diverged, 2 sd": Setting(replace(PURE, diverged=(0.05,), effects=(0.0, TWO))),
    "an arm loses 15 %": Setting(replace(PURE, diverged=(0.0, 0.15))),
    "an arm loses 15 %, 8 seeds": Setting(replace(PURE, diverged=(0.0, 0.15)), most=8),
    "25 % of an arm at twice the WER": Setting(replace(PURE, fails=(0.0, 0.25))),
    "10 % of both at twice the WER": Setting(BAD_SEEDS),
    "10 % of both at twice the WER, means": Setting(BAD_SEEDS, robust=False),
    "10 % of both at twice the WER, 2 sd": Setting(replace(BAD_SEEDS, effects=(0.0, TWO))),
    "3 arms: 0, 1, 3 sd": Setting(replace(PURE, effects=(0.0, 0.0, ONE, THREE)), arms=4),
    "7 equal arms": Setting(PURE, arms=8), "10 speakers": Setting(World(speakers=10)),
    "40 speakers": Setting(World(speakers=40)),
    "40 speakers, arm × 3": Setting(World(speakers=40, seeds=(0.02, 0.06))),
    "paired, seeds share 0.8": Setting(replace(PURE, shared=0.8), paired=True),
    "margin 0.5 sd, given up where hopeless": Setting(PURE, margin=0.01, hopeless=0.1),
}  # fmt: skip


PRIORS = {
    "wide": lambda generator: 0.04 * generator.standard_t(4),
    "normal, sd 2 points": lambda generator: 0.02 * generator.standard_normal(),
    "half 0, else sd 3 points": lambda generator: 0.03 * generator.standard_normal() * (generator.random() < 0.5),
}
"""True effects of arms, as fractions: nobody knows which are asked about, so there are three."""


def repeated(prior: str, questions: int, seed: int | Sequence[int]) -> list[tuple[Verdict, Verdict]]:
    """Questions of two arms, answered twice by one plan (3, 5, 8 seeds, ± 2 points) on one set of 40 speakers."""
    generator = np.random.default_rng(seed)
    pairs = []
    for _ in range(questions):
        setting = Setting(_published_like(prior, generator), most=8)
        twice = _twice(setting, generator)
        first, second = (follow(setting.plan(), arms, setting.questions(), describe=False) for arms in twice)
        pairs.append((first.verdicts[0], second.verdicts[0]))
    return pairs


def repeated_without_plan(
    prior: str, runs: int, questions: int, seed: int | Sequence[int]
) -> list[tuple[Outcome, float, bool]]:
    """The same of `runs` runs of each arm: the first verdict, its predicted chance to recur, whether it did."""
    generator = np.random.default_rng(seed)
    answers: list[tuple[Outcome, float, bool]] = []
    for _ in range(questions):
        setting = Setting(_published_like(prior, generator), most=runs)
        families = [
            Family(arms, arms[0], setting.questions(), FixedLength(), margin=setting.margin, describe=describe)
            for arms, describe in zip(_twice(setting, generator), (True, False), strict=True)
        ]
        first, second = (decide_all(family, [SET], SET, "wer")[0][0] for family in families)
        assert first.repeated is not None
        answers.append((first.outcome, first.repeated, first.outcome == second.outcome))
    return answers


def _twice(setting: Setting, generator: np.random.Generator) -> list[list[Arm]]:
    """The arms of two sweeps on one test set."""
    test_set = int(generator.integers(2**31))
    return [invented(setting, generator, test_set) for _ in range(2)]


def _published_like(prior: str, generator: np.random.Generator) -> World:
    """Two arms with the published runs' deviations: 3.3 % of the WER, 6.8 degrees (a scaled inverse χ²)."""
    deviations = 0.24 * 0.033 * np.sqrt(6.8 / generator.chisquare(6.8, 2))
    return World(
        seeds=tuple(deviations), effects=(0.0, PRIORS[prior](generator)), speakers=40, words=146, rate=0.24,
        arm_speaker=0.012, run_speaker=0.012,
    )  # fmt: skip
