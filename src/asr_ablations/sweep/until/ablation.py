"""Round by round until every question has its verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from asr_ablations.comparison.course import Course
from asr_ablations.comparison.planned import follow, planned_arms
from asr_ablations.runs.records import Records, load
from asr_ablations.runs.status import RESULTS, fate_of
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.launch import ArmsFailedError, freeze
from asr_ablations.sweep.manifest import write_manifest
from asr_ablations.sweep.terminal import what_varies
from asr_ablations.sweep.until.planning import Planned
from asr_ablations.sweep.until.sharing import take_over
from asr_ablations.sweep.until.standing import write_standing
from asr_ablations.sweep.until.terminal import print_failures, print_look, print_taken
from asr_ablations.tools.files import Json

Start = Callable[[Sequence[FrozenArm], Sequence[Sequence[str]]], None]
"""What runs arms side by side and waits for them; given with their overrides too."""
Compose = Callable[[Sequence[str]], DictConfig]
"""The resolved config that overrides make."""


@dataclass(frozen=True)
class Ablation:
    """folder: of the sweep; retries: how often a run that failed is run again before its look; share: take over
    finished runs of other sweeps; metadata: how the sweep was started.
    """

    planned: Planned
    folder: Path
    compose: Compose
    start: Start
    metadata: Json
    retries: int
    share: bool

    def run(self) -> Course:
        """Add runs until the plan has ended. Raises ArmsFailedError where a look lacks runs that failed again."""
        printed = 0
        while True:
            course = self._course()
            for look in course.looks[printed:]:
                print_look(look, self.planned, course)
            printed = len(course.looks)
            if course.looks:
                write_standing(self.folder, self.planned.plan, course)
            if course.ended:
                return course
            self._round(course.missing)

    def _course(self) -> Course:
        """What the runs say that are there."""
        plan = self.planned.plan
        records = load([self.folder]) if any(self.folder.glob("*/status.json")) else Records([])
        arms, _ = planned_arms(plan, records)
        return follow(plan, arms, self.planned.questions, describe=False)

    def _round(self, missing: Mapping[str, Sequence[int]]) -> None:
        """Make the runs that the next look lacks, or take them over."""
        overrides = self._overrides(missing)
        arms = freeze([self.compose(words) for words in overrides])
        write_manifest(self.folder, arms, self.metadata)
        if self.share:
            print_taken([(arm, other) for arm in arms if (other := take_over(arm)) is not None])
        for _ in range(1 + self.retries):
            left = [
                (arm, words)
                for arm, words in zip(arms, overrides, strict=True)
                if fate_of(arm.folder).state not in RESULTS
            ]
            if not left:
                return
            self.start([arm for arm, _ in left], [words for _, words in left])
        lacking = [arm for arm in arms if fate_of(arm.folder).state not in RESULTS]
        if lacking:
            names = what_varies([arm.overrides for arm in lacking])
            print_failures(list(zip(names, lacking, strict=True)), self.retries)
            raise ArmsFailedError(1)

    def _overrides(self, missing: Mapping[str, Sequence[int]]) -> list[list[str]]:
        """Of the runs that are missing, seed by seed over all arms: what is stopped early has whole seeds."""
        plan = self.planned.plan
        by_name = {arm.name: arm.overrides for arm in plan.arms}
        return [
            [*by_name[name], f"seed={seed}"] for seed in plan.seeds for name in by_name if seed in missing.get(name, ())
        ]
