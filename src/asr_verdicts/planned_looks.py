"""Evaluate the planned looks (interim analyses) of a sweep.

The state of a plan is always recomputed from the plan and all results. Therefore, neither interruptions nor the order
in which runs end matters.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import mean

from asr_verdicts.arms import Arm
from asr_verdicts.decide import Family, decide_all, equal_level, equivalence
from asr_verdicts.design import Design
from asr_verdicts.evidence import Evidence
from asr_verdicts.failures import FailureRule
from asr_verdicts.plan import VerdictPlan
from asr_verdicts.record import Record
from asr_verdicts.scales import SCALES
from asr_verdicts.statistics.alpha_spending import GroupSequential
from asr_verdicts.statistics.power import levers_to_equal
from asr_verdicts.statistics.procedures import ANYTIME
from asr_verdicts.verdict import SHOWN, AtLook, Outcome, Question, Verdict


@dataclass(frozen=True)
class PlannedLook:
    """A planned look (interim analysis), with verdicts on the questions that were open before it.

    - number: number of the look, from 1
    - runs: runs per arm at this look
    """

    number: int
    runs: int
    verdicts: list[Verdict]


@dataclass(frozen=True)
class Course:
    """The state of a plan: the looks (interim analyses) so far, and the verdicts.

    - plan: the plan; None if the sweep has no plan
    - sets: test sets with planned looks
    - verdicts: latest verdict on each question that was tested, which may be final
    - missing: seeds that the next look needs but that have no result yet, by arm; empty if the plan has ended
    """

    plan: VerdictPlan | None = None
    sets: list[str] = field(default_factory=list)
    looks: list[PlannedLook] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    missing: dict[str, list[int]] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return not self.missing

    @property
    def followed(self) -> VerdictPlan:
        """The plan, which must not be None."""
        assert self.plan is not None
        return self.plan

    def runs(self, plan: VerdictPlan) -> dict[str, int]:
        """Return the number of runs of each arm that the looks have used so far."""
        counts = dict.fromkeys([arm.name for arm in plan.arms], 0)
        for look in self.looks:
            for contrast in look.verdicts:
                for arm in contrast.question.weights:
                    counts[arm] = look.runs
        return counts


NO_LOOKS = Course()  # course of a sweep without a plan

HOPELESS_FROM = 5  # runs per arm from which questions may be given up; with fewer, the noise estimate is unreliable


def follow(plan: VerdictPlan, arms: Sequence[Arm], questions: Sequence[Question], *, describe: bool = True) -> Course:
    """Evaluate all looks (interim analyses) whose runs are complete.

    Each look tests the open questions together by Holm's procedure. Once a difference is shown, its question no longer
    counts in the correction, because its level is passed on to the open questions (Maurer & Bretz 2013). Decided
    questions get no further runs. describe: whether to add the matched-pairs test and the power.
    """
    looks: list[PlannedLook] = []
    final: dict[str, Verdict] = {}
    families: dict[int, Family] = {}
    open_ = list(questions)
    for index, runs in enumerate(plan.looks):
        needed = [arm for arm in arms if any(arm.name in question.weights for question in open_)]
        missing = {arm.name: lacking for arm in needed if (lacking := _missing_seeds(arm, plan.seeds[:runs]))}
        if missing or not open_:
            return Course(plan, [plan.set], looks, _order_verdicts(questions, final, families, plan, describe), missing)
        procedure = GroupSequential(tuple(plan.looks), index, plan.alpha, plan.gamma)
        cut = [replace(arm.of_seeds(plan.seeds[:runs]), absent=[]) for arm in needed]
        different = sum(contrast.outcome in SHOWN for contrast in final.values())
        family = Family(
            arms=cut,
            baseline=next((arm for arm in cut if arm.name == plan.baseline), cut[0]),
            questions=open_,
            procedure=procedure,
            size=len(questions) - different,
            alpha=plan.alpha,
            typical=plan.robust,
            rule=FailureRule.parse(plan.failed),
            scale=SCALES[plan.scale],
            margin=plan.margin,
            paired=plan.paired,
            describe=False,
        )
        measured, _ = decide_all(family, [plan.set], plan.set, plan.metric)
        measured = [_judge(contrast, plan, procedure, len(questions)) for contrast in measured]
        families[index + 1] = family
        looks.append(PlannedLook(index + 1, runs, measured))
        final |= {contrast.question.name: contrast for contrast in measured}
        open_ = [contrast.question for contrast in measured if contrast.outcome == "open"]
    return Course(plan, [plan.set], looks, _order_verdicts(questions, final, families, plan, describe))


def _missing_seeds(arm: Arm, seeds: Sequence[int]) -> list[int]:
    present = {run.seed for run in arm.results}
    return [seed for seed in seeds if seed not in present]


def _judge(contrast: Verdict, plan: VerdictPlan, procedure: GroupSequential, questions: int) -> Verdict:
    """Add the look to a verdict. If no difference is shown, set the outcome to open, equivalent or undecided."""
    estimate, last = contrast.estimate, procedure.look == len(plan.looks) - 1
    half, chance = math.inf, None
    if estimate is not None and not contrast.reason:
        equal = equal_level(plan.alpha, questions)
        half = procedure.half_width(estimate, equal)
        if not last and plan.looks[procedure.look] >= HOPELESS_FROM and contrast.level is not None:
            chance = procedure.chance(estimate, contrast.level, plan.margin, equal)
    value = contrast.difference if estimate is None else estimate.value
    low, high = value - half, value + half
    outcome: Outcome = contrast.outcome
    if contrast.outcome not in (*SHOWN, "not learned"):
        within = -plan.margin < low and high < plan.margin
        hopeless = chance is not None and chance < plan.hopeless
        outcome = equivalence(contrast) if within else "undecided" if last or hopeless else "open"
    elif contrast.outcome == "not learned" and not last:
        outcome = "open"
    at = AtLook(
        number=procedure.look + 1,
        of=len(plan.looks),
        runs=plan.looks[procedure.look],
        most=plan.most,
        margin=plan.margin,
        low=low,
        high=high,
        chance=chance,
    )
    return replace(contrast, outcome=outcome, look=at)


def _order_verdicts(
    questions: Sequence[Question],
    final: dict[str, Verdict],
    families: dict[int, Family],
    plan: VerdictPlan,
    describe: bool,
) -> list[Verdict]:
    """Return the latest verdicts in question order. describe: whether to add the matched-pairs test and the power."""
    verdicts = [final[question.name] for question in questions if question.name in final]
    if not describe:
        return verdicts
    described: dict[int, dict[str, Verdict]] = {}
    for number in {contrast.look.number for contrast in verdicts if contrast.look is not None}:
        family = replace(families[number], describe=True)
        measured = decide_all(family, [plan.set], plan.set, plan.metric)[0]
        described[number] = {contrast.question.name: contrast for contrast in measured}
    return [_add_description(contrast, described, plan) for contrast in verdicts]


def _add_description(contrast: Verdict, described: dict[int, dict[str, Verdict]], plan: VerdictPlan) -> Verdict:
    look = contrast.look
    assert look is not None
    other = described[look.number][contrast.question.name]
    if contrast.estimate is not None and not contrast.reason:
        level = equal_level(plan.alpha, len(plan.contrasts))
        look = replace(look, levers=levers_to_equal(plan.margin, contrast.estimate, level))
    return replace(
        contrast,
        look=look,
        detectable=other.detectable,
        levers=other.levers,
        p_pairs=other.p_pairs,
        p_pairs_holm=other.p_pairs_holm,
    )


def follow_plan(design: Design, evidence: Evidence) -> tuple[Course, Evidence]:
    """Return the state of a sweep's plan, and the test of its latest look. If there is no plan, return `evidence`.

    If the baseline, metric or test set differs from the plan's, the anytime-valid test is used.
    """
    plan = design.layout.plan
    if plan is None:
        return NO_LOOKS, evidence
    if (design.baseline.name, design.metric.name, design.primary) != (plan.baseline, plan.metric, plan.set):
        reason = "the sweep's plan has a different baseline, metric or test set"
        return NO_LOOKS, replace(evidence, procedure=ANYTIME, reason=reason, complete=False)
    course = follow(plan, design.layout.arms, design.questions)
    number = len(course.looks)
    procedure = GroupSequential(tuple(plan.looks), max(0, number - 1), plan.alpha, plan.gamma)
    after = ", ".join(map(str, plan.looks))
    reason = f"after {after} seeds of each open arm, as planned before the first run"
    if plan.seen:
        reason = f"{reason}; {plan.seen} runs had been compared before that"
    return course, Evidence(procedure, reason, number, complete=course.ended)


@dataclass(frozen=True)
class Spent:
    """The cost of a plan, compared with a fixed design in which each arm gets the largest number of seeds.

    - runs: number of runs that the looks used
    - fixed: number of runs in the fixed design
    - saved: number of runs of the fixed design that are no longer needed
    - hours: training time of the used runs, in hours; None if no time was recorded
    - untimed: number of used runs without a recorded time, because they diverged
    - hours_saved: training time of the saved runs, in hours, estimated from each arm's mean time; None if unknown
    - taken_over: number of used runs that were trained by other sweeps, by sweep name
    - hours_taken_over: training time of the runs from other sweeps, in hours
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
    """Compute the cost of a plan up to its latest look. arms: the planned arms that have results."""
    counts, results = course.runs(plan), {arm.name: arm.results for arm in arms}
    open_ = {name for each in course.verdicts if each.outcome == "open" for name in each.question.weights}
    used = {
        name: [run for run in results.get(name, []) if run.seed in plan.seeds[:count]] for name, count in counts.items()
    }
    saved = {name: plan.most - count for name, count in counts.items() if name not in open_ and count < plan.most}
    everything = [run for runs in used.values() for run in runs]
    hours, taken = _training_hours(everything), [run for run in everything if run.folder.is_symlink()]
    means = {name: mean(trained) for name in saved if (trained := _training_hours(used[name]))}
    return Spent(
        plan=plan,
        runs=sum(counts.values()),
        fixed=plan.most * len(plan.arms),
        saved=sum(saved.values()),
        hours=sum(hours) if hours else None,
        untimed=len(everything) - len(hours),
        hours_saved=sum(saved[name] * means[name] for name in saved) if means.keys() == saved.keys() else None,
        taken_over=dict(sorted(Counter(run.folder.resolve().parent.name for run in taken).items())),
        hours_taken_over=sum(_training_hours(taken)),
    )


def _training_hours(runs: Sequence[Record]) -> list[float]:
    """Return the training time in hours of each run with a recorded time."""
    seconds = [run.summary.seconds.get("train") for run in runs]
    return [value / 3600 for value in seconds if value is not None]
