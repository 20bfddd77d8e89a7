"""A sweep with a plan: its arms, and what its looks found so far.

The course is a function of the plan and of the results by seed alone: it is computed anew from the runs each time, so
that nothing that was interrupted can be counted twice, and whatever order runs end in changes nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.confounds import within
from asr_ablations.comparison.contrast import EQUIVALENT, SHOWN, AtLook, Contrast, Outcome, Question
from asr_ablations.comparison.contrasts import Family, contrasts, equal_level, equivalence
from asr_ablations.comparison.evidence import ANYTIME, Evidence
from asr_ablations.comparison.failures import FailureRule
from asr_ablations.comparison.sequential_result import Course, PlannedLook
from asr_ablations.runs.identity import Config, flatten
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.records import Records, Unfinished
from asr_ablations.runs.verdict_plan import VerdictPlan, arm_content
from asr_ablations.statistics.alpha_spending import GroupSequential
from asr_ablations.statistics.power import levers_to_equal

HOPELESS_FROM = 5
"""Runs an arm before which no question is given up: the noise is hardly known."""
ENDS: tuple[Outcome, ...] = (*SHOWN, *EQUIVALENT)
"""The outcomes that end a question; it is undecided if the runs are used up, or no verdict is in sight."""


def planned_arms(plan: VerdictPlan, records: Records) -> tuple[list[Arm], list[str]]:
    """The arms of the plan with their runs in the order of seeds, and warnings about runs that are not the plan's."""
    arms, taken = [], set()
    for planned in plan.arms:
        mine = [run for run in [*records.runs, *records.diverged] if _belongs(run.config, planned.content, plan)]
        seeds: dict[int, RunRecord] = {}
        for run in mine:
            if run.seed in plan.seeds and not run.searched:
                seeds.setdefault(run.seed, run)
        kept = [seeds[seed] for seed in sorted(seeds)]
        absent = [run for run in records.unfinished if run.config and _belongs(run.config, planned.content, plan)]
        taken |= {id(run) for run in [*kept, *absent]}
        arms.append(
            Arm(
                planned.name,
                [run for run in kept if run.diverged_at is None],
                [run for run in kept if run.diverged_at is not None],
                absent,
                planned.levels,
            )
        )
    rest: list[RunRecord | Unfinished] = [*records.runs, *records.diverged, *records.unfinished]
    others = [run.folder.name for run in rest if id(run) not in taken]
    names = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
    return arms, [f"{names}: no run of the plan, left out"] if others else []


def _belongs(config: Config, content: Config, plan: VerdictPlan) -> bool:
    """True if a run is of the arm with this content. A key that came into the configs after the plan was made has no
    say, unless the run's own overrides set it.
    """
    own, planned = flatten(arm_content(config, plan.belongs)), flatten(content)
    typed = [str(override).partition("=")[0].lstrip("+~") for override in config.get("overrides") or []]
    return {key: value for key, value in own.items() if key in planned or within(key, typed)} == planned


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
            return Course(looks, _ordered(questions, final, families, plan, describe), missing)
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
    return Course(looks, _ordered(questions, final, families, plan, describe), {})


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


def planned_evidence(plan: VerdictPlan, course: Course | None, otherwise: Evidence) -> Evidence:
    """The evidence of a planned sweep. course: the result of its looks; None for a question outside the plan,
    which gets the test that holds at any time, and whose look is recorded.
    """
    if course is None:
        return replace(otherwise, procedure=ANYTIME, reason="the sweep's plan asks something else", complete=False)
    number = len(course.looks)
    procedure = GroupSequential(tuple(plan.looks), max(0, number - 1), plan.alpha, plan.gamma)
    after = ", ".join(map(str, plan.looks))
    reason = f"planned before the first run, after {after} runs of each arm that is open"
    if plan.seen:
        reason = f"{reason}; {plan.seen} of them had been compared before"
    return Evidence(procedure, reason, number, complete=course.ended)
