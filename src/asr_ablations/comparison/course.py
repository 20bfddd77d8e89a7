"""What the looks of a sweep with a plan found: made by comparison.planned."""

from dataclasses import dataclass, field

from asr_ablations.comparison.contrast import Contrast
from asr_ablations.runs.verdict_plan import VerdictPlan


@dataclass(frozen=True)
class Look:
    """number: counted from 1; runs: of each arm; contrasts: of the questions that were open before it."""

    number: int
    runs: int
    contrasts: list[Contrast]


@dataclass(frozen=True)
class Course:
    """looks: those that were taken. contrasts: of every question that was looked at, as it was decided, or as it stood
    at the latest look. missing: the seeds that the next look lacks, by arm; empty where the plan has ended.
    """

    looks: list[Look] = field(default_factory=list)
    contrasts: list[Contrast] = field(default_factory=list)
    missing: dict[str, list[int]] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return not self.missing

    def runs(self, plan: VerdictPlan) -> dict[str, int]:
        """How many runs each arm needed for what was found so far."""
        counts = dict.fromkeys([arm.name for arm in plan.arms], 0)
        for look in self.looks:
            for contrast in look.contrasts:
                for arm in contrast.question.weights:
                    counts[arm] = look.runs
        return counts
