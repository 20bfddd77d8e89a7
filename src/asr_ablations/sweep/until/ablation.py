"""Round by round until every question has its verdict."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from omegaconf import DictConfig, OmegaConf

from asr_ablations.comparison.layouts import planned_arms
from asr_ablations.runs.identity import BEHAVIOUR, content
from asr_ablations.runs.layout import STANDING, STATUS
from asr_ablations.runs.process import load_frozen
from asr_ablations.runs.reader import UnreadableFileError, read_config, read_environment
from asr_ablations.runs.records import KEPT_ASIDE, load
from asr_ablations.runs.status import RESULTS, fate_of
from asr_ablations.runs.sweep_history import searched_arms
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.launch import ArmsFailedError, freeze
from asr_ablations.sweep.live import what_varies
from asr_ablations.sweep.manifest import write_manifest
from asr_ablations.sweep.until.planning import Planned
from asr_ablations.sweep.until.terminal import print_failures, print_look, print_taken
from asr_verdicts.config import differences
from asr_verdicts.files import write_json
from asr_verdicts.plan import VerdictPlan
from asr_verdicts.planned_looks import Course, follow
from asr_verdicts.record import Records
from asr_verdicts.verdict import Verdict


def write_standing(folder: Path, plan: VerdictPlan, course: Course) -> None:
    """Write STANDING into the sweep's folder: the folders of runs may belong to other sweeps too."""
    write_json(folder / STANDING, standing(plan, course))


def standing(plan: VerdictPlan, course: Course) -> dict[str, object]:
    """Return the content of STANDING: by arm its latest look, its seeds, its state, its questions; rates are fractions.

    The state of an arm is the outcome of its question. The baseline, and an arm of several questions, are open or
    decided.
    """
    return {
        "look": len(course.looks),
        "looks": len(plan.looks),
        "ended": course.ended,
        "arms": {arm.name: _arm(arm.name, plan, course) for arm in plan.arms},
    }


def _arm(name: str, plan: VerdictPlan, course: Course) -> dict[str, object]:
    contrasts = [contrast for contrast in course.verdicts if name in contrast.question.weights]
    numbers = [contrast.look.number for contrast in contrasts if contrast.look is not None]
    return {
        "look": max(numbers, default=0),
        "seeds": course.runs(plan)[name],
        "state": _state(name, contrasts),
        "questions": {contrast.arm: _question(contrast) for contrast in contrasts},
    }


def _state(name: str, contrasts: Sequence[Verdict]) -> str:
    if len(contrasts) == 1 and contrasts[0].arm == name:
        return contrasts[0].outcome
    return "open" if not contrasts or any(contrast.outcome == "open" for contrast in contrasts) else "decided"


def _question(contrast: Verdict) -> dict[str, object]:
    ends = {"low": contrast.low, "high": contrast.high}
    return {
        "state": contrast.outcome,
        "difference": contrast.difference,
        **{key: end if end is not None and math.isfinite(end) else None for key, end in ends.items()},
    }


def take_over(arm: FrozenArm) -> Path | None:
    """Link the arm's folder to a run of another sweep beside this one that has the same content and a result.

    Returns the folder that was linked; None where there is none. A run that a search proposed is none: it may have been
    chosen for its luck.
    """
    if arm.folder.is_symlink() and not arm.folder.exists():
        arm.folder.unlink()  # what it was taken from has been deleted
    if arm.folder.exists() or arm.folder.is_symlink():
        return None
    for folder in sorted(arm.folder.parent.parent.glob(f"*/*-{arm.id}/{STATUS}")):
        other = folder.parent.resolve()
        if not KEPT_ASIDE.search(other.name) and _is_same(other, arm):
            arm.folder.parent.mkdir(parents=True, exist_ok=True)
            arm.folder.symlink_to(os.path.relpath(other, arm.folder.parent.resolve()), target_is_directory=True)
            return other
    return None


def _is_same(other: Path, arm: FrozenArm) -> bool:
    """True if a run has a result, has the arm's content, and was not proposed by a search."""
    try:
        environment = read_environment(other)
        if fate_of(other).state not in RESULTS or environment.id != arm.id:
            return False
        if environment.behaviour != BEHAVIOUR or arm.id in searched_arms(other.parent):
            return False
        return not differences(content(OmegaConf.create(read_config(other))), content(load_frozen(arm.config)))
    except (FileNotFoundError, UnreadableFileError):
        return False


Start = Callable[[Sequence[FrozenArm]], object]
"""What runs arms side by side and waits for them."""
Compose = Callable[[Sequence[str]], DictConfig]
"""The resolved config that overrides make."""


def _without_result(arms: Sequence[FrozenArm]) -> list[FrozenArm]:
    return [arm for arm in arms if fate_of(arm.folder).state not in RESULTS]


@dataclass(frozen=True)
class Ablation:
    """folder: of the sweep; retries: how often a run that failed is run again before its look; share: take over
    finished runs of other sweeps; metadata: how the sweep was started.
    """

    planned: Planned
    folder: Path
    compose: Compose
    start: Start
    metadata: dict[str, object]
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
        """Return the result of the looks at the runs that have finished."""
        plan = self.planned.plan
        records = load([self.folder]) if any(self.folder.glob("*/status.json")) else Records([])
        arms, _ = planned_arms(plan, records)
        return follow(plan, arms, self.planned.questions, describe=False)

    def _round(self, missing: Mapping[str, Sequence[int]]) -> None:
        """Make the runs that the next look lacks, or take them over."""
        configs = [self.compose(words) for words in self._overrides(missing)]
        arms = freeze(configs, cast(list[str], self.metadata["overrides"]))
        write_manifest(self.folder, arms, self.metadata)
        if self.share:
            print_taken([(arm, other) for arm in arms if (other := take_over(arm)) is not None])
        for _ in range(1 + self.retries):
            if not (lacking := _without_result(arms)):
                return
            self.start(lacking)
        if lacking := _without_result(arms):
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
