"""A sweep with a plan: its arms, and what its looks found so far.

The course is a function of the plan and of the results by seed alone: it is computed anew from the runs each time, so
that nothing that was interrupted can be counted twice, and whatever order runs end in changes nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from asr_verdicts.arms import Arm
from asr_verdicts.contrast import EQUIVALENT, SHOWN, AtLook, Contrast, Outcome, Question
from asr_verdicts.contrasts import Family, contrasts, equal_level, equivalence
from asr_verdicts.design import Design
from asr_verdicts.evidence import Evidence
from asr_verdicts.failures import FailureRule
from asr_verdicts.plan import VerdictPlan
from asr_verdicts.sequential_result import NO_LOOKS, Course, PlannedLook
from asr_verdicts.statistics.alpha_spending import GroupSequential
from asr_verdicts.statistics.power import levers_to_equal
from asr_verdicts.statistics.procedures import ANYTIME

HOPELESS_FROM = 5
"""Runs an arm before which no question is given up: the noise is hardly known."""
ENDS: tuple[Outcome, ...] = (*SHOWN, *EQUIVALENT)
"""The outcomes that end a question; it is undecided if the runs are used up, or no verdict is in sight."""


def follow(plan: VerdictPlan, arms: Sequence[Arm], questions: Sequence[Question], *, describe: bool = True) -> Course:
    """Take every look for which the runs are there.

    At a look the questions that are open are tested together, by Holm's procedure over all questions less those that
    were called different before (its level is passed on: Maurer & Bretz 2013). What is decided gets no further runs and
    is not tested again. describe: with matched pairs and the power of the runs, which decide nothing.
    """
    looks: list[PlannedLook] = []
    final: dict[str, Contrast] = {}
    families: dict[int, Family] = {}
    open_ = list(questions)
    for index, runs in enumerate(plan.looks):
        needed = _arms_of(open_, arms)
        missing = {arm.name: lacking for arm in needed if (lacking := _missing(arm, plan.seeds[:runs]))}
        if missing or not open_:
            return Course(plan, [plan.set], looks, _ordered(questions, final, families, plan, describe), missing)
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
            scale=plan.scale,
            margin=plan.margin,
            paired=plan.paired,
            describe=False,
        )
        measured = _look(family, plan, procedure, len(questions))
        families[index + 1] = family
        looks.append(PlannedLook(index + 1, runs, measured))
        final |= {contrast.question.name: contrast for contrast in measured}
        open_ = [contrast.question for contrast in measured if contrast.outcome == "open"]
    return Course(plan, [plan.set], looks, _ordered(questions, final, families, plan, describe))


def _arms_of(questions: Sequence[Question], arms: Sequence[Arm]) -> list[Arm]:
    return [arm for arm in arms if any(arm.name in question.weights for question in questions)]


def _missing(arm: Arm, seeds: Sequence[int]) -> list[int]:
    there = {run.seed for run in arm.results}
    return [seed for seed in seeds if seed not in there]


def _look(family: Family, plan: VerdictPlan, procedure: GroupSequential, questions: int) -> list[Contrast]:
    """The open questions at a look, each with its outcome."""
    measured, _ = contrasts(family, [plan.set], plan.set, plan.metric)
    return [_judged(contrast, plan, procedure, questions) for contrast in measured]


def _judged(contrast: Contrast, plan: VerdictPlan, procedure: GroupSequential, questions: int) -> Contrast:
    """With its place among the looks, and open, equivalent or undecided where no difference is shown."""
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


def _ordered(
    questions: Sequence[Question],
    final: dict[str, Contrast],
    families: dict[int, Family],
    plan: VerdictPlan,
    describe: bool,
) -> list[Contrast]:
    """The contrasts in the order of the questions, described where they are to be shown."""
    found = [final[question.name] for question in questions if question.name in final]
    if not describe:
        return found
    described: dict[int, dict[str, Contrast]] = {}
    for number in {contrast.look.number for contrast in found if contrast.look is not None}:
        family = replace(families[number], describe=True)
        measured = contrasts(family, [plan.set], plan.set, plan.metric)[0]
        described[number] = {contrast.question.name: contrast for contrast in measured}
    return [_with_description(contrast, described, plan) for contrast in found]


def _with_description(contrast: Contrast, described: dict[int, dict[str, Contrast]], plan: VerdictPlan) -> Contrast:
    assert contrast.look is not None
    other = described[contrast.look.number][contrast.question.name]
    look = contrast.look
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


def follow_plan(design: Design, plan: VerdictPlan | None, evidence: Evidence) -> tuple[Course, Evidence]:
    """The looks of a sweep, and the evidence that they are; without a plan none, and the evidence as it is.

    A question outside the plan gets the test that holds at any time, and its look is recorded.
    """
    if plan is None:
        return NO_LOOKS, evidence
    if (design.baseline.name, design.metric.name, design.primary) != (plan.baseline, plan.metric, plan.set):
        reason = "the sweep's plan asks something else"
        return NO_LOOKS, replace(evidence, procedure=ANYTIME, reason=reason, complete=False)
    course = follow(plan, design.layout.arms, design.questions)
    number = len(course.looks)
    procedure = GroupSequential(tuple(plan.looks), max(0, number - 1), plan.alpha, plan.gamma)
    after = ", ".join(map(str, plan.looks))
    reason = f"planned before the first run, after {after} runs of each arm that is open"
    if plan.seen:
        reason = f"{reason}; {plan.seen} of them had been compared before"
    return course, Evidence(procedure, reason, number, complete=course.ended)
