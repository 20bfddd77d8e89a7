"""Runs compared: loaded, checked for confounds, grouped into arms, measured, decided."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

from asr_ablations.comparison.arm_differences import ArmDifference, arm_differences
from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.confounds import Differing, value_text
from asr_ablations.comparison.contrast import Contrast
from asr_ablations.comparison.contrasts import Family, contrasts
from asr_ablations.comparison.declaration import Declaration, Scale, margin_on
from asr_ablations.comparison.derived_tables import is_search
from asr_ablations.comparison.design import Design, Options, design_of
from asr_ablations.comparison.evidence import ANYTIME, UNDECLARED, Evidence, gather, keep_look, shared_baseline
from asr_ablations.comparison.failures import FailureRule
from asr_ablations.comparison.identical_arms import alike_warnings
from asr_ablations.comparison.metrics import WER, Metric, validation_sets
from asr_ablations.comparison.planned_looks import follow, planned_evidence
from asr_ablations.comparison.result import Comparison
from asr_ablations.comparison.seed_variance import known_noise, quiet_by_luck
from asr_ablations.comparison.sequential_result import Course
from asr_ablations.comparison.table_columns import table_rows
from asr_ablations.comparison.time_to_accuracy import at_equal_cost, times_to_accuracy
from asr_ablations.comparison.verdict import verdict
from asr_ablations.runs.record import Environment, RunRecord
from asr_ablations.runs.records import Records, load
from asr_ablations.runs.verdict_plan import VerdictPlan, read_plan
from asr_ablations.tools.errors import UsageError


def circumstance_warnings(arms: Sequence[Arm]) -> list[str]:
    """A warning for every circumstance that is not the same in all runs, or that changed within a run, which was
    interrupted and continued elsewhere.
    """
    warnings = []
    for name, read, meaning in _CIRCUMSTANCES:
        runs_by_value: dict[str, list[str]] = {}
        for arm in arms:
            for run in arm.runs:
                value = ", then ".join(dict.fromkeys(map(read, run.environment.sessions)))
                runs_by_value.setdefault(value, []).append(f"{arm.name}/{run.seed}")
        if len(runs_by_value) > 1 or any(", then " in value for value in runs_by_value):
            values = "; ".join(f"{value}: {', '.join(runs)}" for value, runs in runs_by_value.items())
            warnings.append(f"the runs are of different {name}, {meaning} ({values})")
    return warnings


def _code(environment: Environment) -> str:
    code = environment.code
    diff = code.dirty_diff
    changes = f" with changes {hashlib.sha256(diff.encode(errors='surrogateescape')).hexdigest()[:6]}" if diff else ""
    return f"{(code.commit or 'unknown')[:8]}{changes}"


def _versions(environment: Environment) -> str:
    versions = environment.versions
    return f"torch {versions.get('torch', 'unknown')}, Python {versions.get('python', 'unknown')}"


def _hardware(environment: Environment) -> str:
    hardware = environment.hardware
    if gpus := hardware.gpus:
        return f"{len(gpus)} × {gpus[0]}"
    return f"{hardware.processor or 'unknown'}, {hardware.cores or '?'} cores"


def _native(environment: Environment) -> str:
    return environment.hardware.native or "none"


_CIRCUMSTANCES: tuple[tuple[str, Callable[[Environment], str], str], ...] = (
    ("code", _code, "which may change results"),
    ("versions", _versions, "which may change results"),
    ("hardware", _hardware, "so their times cannot be compared"),
    ("native library", _native, "which changes last bits, and products of precision=bf16 where one of them is none"),
)
"""Name, how an environment says it, and what a difference means."""


REASONS = 3
"""Runs without a result that an error names; the others are counted."""


def compare(folders: Sequence[Path], options: Options) -> Comparison:
    """Compare the runs in folders, and record the look. Raises ConfoundedError where they differ in more than the
    factor.
    """
    records = load(folders)
    title = " ".join(folder.resolve().name for folder in folders)
    plan = read_plan(folders[0]) if len(folders) == 1 else None
    comparison = compare_runs(records, options, title, gather(folders, records), plan)
    unkept = keep_look(comparison.evidence, comparison.arms, comparison.baseline, comparison.contrasts)
    return replace(comparison, warnings=[*comparison.warnings, unkept]) if unkept else comparison


def compare_runs(
    records: Records,
    options: Options,
    title: str,
    evidence: Evidence = UNDECLARED,
    plan: VerdictPlan | None = None,
) -> Comparison:
    """Compare runs that are loaded already, from wherever. plan: of their sweep, where it has one; what it asks is
    answered by its looks. Raises as compare does.
    """
    if not records.runs:
        reasons = [f"{run.folder.name} diverged at step {run.diverged_at}" for run in records.diverged]
        reasons += [f"{run.folder.name} {run.reason}" for run in records.unfinished]
        more = [f"and {len(reasons) - REASONS} more"] if len(reasons) > REASONS else []
        raise UsageError(f"{title}: no run is finished: {'; '.join([*reasons[:REASONS], *more])}")
    design = design_of(records, options, plan)
    arms, metric = [arm for arm in design.arms if arm.results], design.metric
    course = follow(plan, design.arms, design.questions) if plan is not None and _is_planned(design, plan) else None
    if plan is not None:
        evidence = planned_evidence(plan, course, evidence)
    measured, uncompared = _measure(design, evidence, course)
    noise = "" if course else known_noise(evidence.folder, arms, design.primary, metric)
    verdicts = [verdict(contrast, arms, noise) for contrast in measured]
    rows = table_rows(arms, design.sets)
    targets = [metric.check_target(target) for target in options.targets or _declared_targets(design.declared, metric)]
    trained = [] if records.scored else arms  # of systems given by their hypotheses no times are known
    times, untimed = times_to_accuracy(trained, metric, targets)
    differences = [] if records.scored else _differences(design, arms)  # systems differ in all that is not known
    return Comparison(
        title=title,
        question=design.declared.question,
        source=design.declared.source,
        factor=design.factor,
        baseline=design.baseline.name,
        arms=arms,
        sets=design.sets,
        rows=rows,
        validated=table_rows(arms, [name for name in validation_sets(records.runs) if name not in design.sets]),
        verdicts=verdicts,
        times_to_accuracy=times,
        warnings=[
            *records.warnings,
            *design.chosen,
            *_overruled(design.overruled),
            *design.warnings,
            *_without_test_set(design),
            *_no_tests(design),
            *_trained_on(design),
            *(difference.proposal for difference in differences if difference.proposal),
            *alike_warnings(arms, design.questions),
            *_about_noise(evidence.folder, arms, design),
            *circumstance_warnings(arms),
            *uncompared,
            *untimed,
        ],
        unfinished=records.unfinished,
        differing={key: [value_text(value) for value in values] for key, values in design.differ.items()},
        metric=metric.name,
        set=design.primary,
        evidence=evidence,
        equal_cost=at_equal_cost(arms, metric),
        allowed=list(design.overruled),
        changes=design.changes,
        plan=plan if course else None,
        course=course,
        differences=differences,
        scored=records.scored,
    )


def _differences(design: Design, arms: Sequence[Arm]) -> list[ArmDifference]:
    """The keys in which arms differ from the baseline; of a search's arms they are a table of their own."""
    if design.baseline not in arms or is_search(arms):
        return []
    configs = {arm.name: arm.results[0].config for arm in arms}
    return arm_differences(configs, design.baseline.name, design.factor, [run for arm in arms for run in arm.results])


def _about_noise(folder: Path | None, arms: Sequence[Arm], design: Design) -> list[str]:
    """Warnings about seeds that happen to lie close together, and about a baseline that other sweeps share."""
    if folder is None or not folder.is_dir():
        return []
    notes = [quiet_by_luck(folder, arms, design.primary, design.metric), shared_baseline(folder, design.baseline)]
    return [note for note in notes if note]


def _without_test_set(design: Design) -> list[str]:
    if design.primary or len(design.arms) < 2:
        return []
    return ["no test set has results: there are no verdicts (training was steered by validation sets)"]


def _no_tests(design: Design) -> list[str]:
    """A warning for each test set that is a validation set of a run, by its name or its content."""
    return [
        f"{name} is a validation set, too: it steers training, so that rates on it are no test"
        for name in design.sets
        if any(_steers(run, name) for arm in design.arms for run in arm.results if name in run.summary.test_sets)
    ]


def _trained_on(design: Design) -> list[str]:
    """A warning for each test set with speakers on whom a run was trained."""
    runs = [run for arm in design.arms for run in arm.results]
    trained = dict.fromkeys(run.data.trained_on(name) for name in design.sets for run in runs)
    return [f"{text}: intervals are for these speakers, and not for new ones" for text in trained if text]


def _steers(run: RunRecord, name: str) -> bool:
    own = run.data.hash(name)
    return name in run.validation_sets or (own is not None and own in map(run.data.hash, run.validation_sets))


def _is_planned(design: Design, plan: VerdictPlan) -> bool:
    """True if the comparison asks what the plan asks."""
    return (design.baseline.name, design.metric.name, design.primary) == (plan.baseline, plan.metric, plan.set)


def _measure(design: Design, evidence: Evidence, course: Course | None) -> tuple[list[Contrast], list[str]]:
    """All contrasts, the primary set's first, and warnings. With a plan the sets that describe, at whatever runs
    there are, get the interval that holds at any time.
    """
    there = [arm for arm in design.arms if arm.results]
    names = {arm.name for arm in there}
    questions = [question for question in design.questions if names >= {*question.weights}]
    if not design.baseline.results:
        return [], [f"{design.baseline.name}, the baseline, has no result yet"]
    if course is None:
        family = Family(there, design.baseline, questions, evidence.procedure, design.size, **_decided_by(design))
        return contrasts(family, design.sets, design.primary, design.metric.name)
    family = Family(there, design.baseline, questions, ANYTIME, **_decided_by(design))
    others = [name for name in design.sets if name != design.primary]
    measured, warnings = contrasts(family, others, design.primary, design.metric.name)
    return [*course.contrasts, *measured], warnings


class _DecidedBy(TypedDict):
    rule: FailureRule
    scale: Scale
    margin: float | None


def _decided_by(design: Design) -> _DecidedBy:
    """The scale, the margin and the rule of failing, as the sweep file declares them."""
    declared = design.declared
    margin = declared.margin
    return _DecidedBy(
        rule=FailureRule.parse(declared.failed),
        scale=declared.scale,
        margin=None if margin is None else margin_on(margin, declared.scale, design.metric.scale, "ablation.margin"),
    )


def _declared_targets(declared: Declaration, metric: Metric) -> list[float]:
    """The targets of the sweep file, where they are of this metric."""
    return declared.targets if metric.name == (declared.metric or WER.name) else []


def _overruled(beyond: Differing) -> list[str]:
    warning = "by --allow the arms also differ in {} ({}): the effect of the factor cannot be separated from it"
    return [warning.format(key, ", ".join(map(value_text, values))) for key, values in beyond.items()]
