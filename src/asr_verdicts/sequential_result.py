"""The result of the looks of a planned sweep: made by comparison.planned_looks."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean

from asr_verdicts.arms import Arm
from asr_verdicts.contrast import Contrast
from asr_verdicts.plan import VerdictPlan
from asr_verdicts.record import Record


@dataclass(frozen=True)
class PlannedLook:
    """number: counted from 1; runs: of each arm; contrasts: of the questions that were open before it."""

    number: int
    runs: int
    contrasts: list[Contrast]


@dataclass(frozen=True)
class Course:
    """looks: those that were taken. contrasts: of every question that was looked at, as it was decided, or as it stood
    at the latest look. missing: the seeds that the next look lacks, by arm; empty where the plan has ended. plan: None
    for a sweep without one; sets: those that the looks decide.
    """

    plan: VerdictPlan | None = None
    sets: list[str] = field(default_factory=list)
    looks: list[PlannedLook] = field(default_factory=list)
    contrasts: list[Contrast] = field(default_factory=list)
    missing: dict[str, list[int]] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return not self.missing

    def runs(self, plan: VerdictPlan) -> dict[str, int]:
        """The number of runs that each arm needed so far."""
        counts = dict.fromkeys([arm.name for arm in plan.arms], 0)
        for look in self.looks:
            for contrast in look.contrasts:
                for arm in contrast.question.weights:
                    counts[arm] = look.runs
        return counts


NO_LOOKS = Course()
"""Of a sweep without a plan."""


@dataclass(frozen=True)
class Spent:
    """What a plan took.

    runs: that the looks used; fixed: of the fixed design; saved: the runs of it that no arm needs any more.

    hours: of training of the runs used; untimed: how many of them have no time, since they diverged; hours_saved: of
    those saved, an estimate by the mean of the arm's runs; both None where no time is known. taken_over: how many of
    the runs used other sweeps had trained, by sweep; hours_taken_over: of `hours`, what those spent.
    """

    plan: VerdictPlan
    runs: int
    fixed: int
    saved: int
    hours: float | None
    untimed: int
    hours_saved: float | None
    taken_over: dict[str, int]
    hours_taken_over: float


def spent(plan: VerdictPlan, course: Course, arms: Sequence[Arm]) -> Spent:
    """The runs and hours up to the latest look. arms: the planned ones that have results."""
    counts, by_name, open_ = course.runs(plan), {arm.name: arm for arm in arms}, _open(course)
    used = {name: _first(by_name.get(name), plan.seeds[:count]) for name, count in counts.items()}
    saved = {name: plan.most - count for name, count in counts.items() if name not in open_ and count < plan.most}
    everything = [run for runs in used.values() for run in runs]
    hours, taken = _hours(everything), [run for run in everything if run.folder.is_symlink()]
    means = {name: mean(known) for name in saved if (known := _hours(used[name]))}
    return Spent(
        plan=plan,
        runs=sum(counts.values()),
        fixed=plan.most * len(plan.arms),
        saved=sum(saved.values()),
        hours=sum(hours) if hours else None,
        untimed=len(everything) - len(hours),
        hours_saved=sum(saved[name] * means[name] for name in saved) if means.keys() == saved.keys() else None,
        taken_over=dict(sorted(Counter(run.folder.resolve().parent.name for run in taken).items())),
        hours_taken_over=sum(_hours(taken)),
    )


def _open(course: Course) -> set[str]:
    """Arms of the questions that are still open."""
    questions = [contrast.question for contrast in course.contrasts if contrast.outcome == "open"]
    return {name for question in questions for name in question.weights}


def _first(arm: Arm | None, seeds: Sequence[int]) -> list[Record]:
    """The results of an arm with these seeds."""
    return [] if arm is None else [run for run in arm.results if run.seed in seeds]


def _hours(runs: Sequence[Record]) -> list[float]:
    """The hours of training of the runs that have a time."""
    seconds = [run.summary.seconds.get("train") for run in runs]
    return [value / 3600 for value in seconds if value is not None]
