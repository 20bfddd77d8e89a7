"""Runs compared: loaded, checked for confounds, grouped into arms, measured, decided."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from asr_ablations.comparison.arm import Arm
from asr_ablations.comparison.arms import find_baseline, group
from asr_ablations.comparison.circumstances import circumstance_warnings
from asr_ablations.comparison.confounds import (
    ConfoundedError,
    Differing,
    confounds,
    differing,
    find_factor,
    replicated,
    value_text,
    within,
)
from asr_ablations.comparison.contrasts import Family, contrasts
from asr_ablations.comparison.declaration import Declaration, declaration
from asr_ablations.comparison.evidence import UNDECLARED, Evidence, gather, keep_look
from asr_ablations.comparison.literature import beside_the_literature
from asr_ablations.comparison.metrics import WER, Metric, check_comparable, find_metric, measured_sets
from asr_ablations.comparison.noise import known_noise
from asr_ablations.comparison.questions import questions
from asr_ablations.comparison.result import Comparison
from asr_ablations.comparison.table import table_rows
from asr_ablations.comparison.time_to_accuracy import at_equal_cost, times_to_accuracy
from asr_ablations.comparison.verdict import verdict
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.records import Records, load
from asr_ablations.tools.errors import UsageError, choices


@dataclass(frozen=True)
class Options:
    """What a user can choose in place of what the sweep file declares. targets: of the metric, rates as fractions."""

    baseline: str | None = None
    allow: list[str] = field(default_factory=list)
    metric: str | None = None
    set: str | None = None
    targets: list[float] = field(default_factory=list)


def compare(folders: Sequence[Path], options: Options) -> Comparison:
    """Compare the runs in folders, and record the look. Raises ConfoundedError where they differ in more than the
    factor.
    """
    records = load(folders)
    title = " ".join(folder.resolve().name for folder in folders)
    evidence = gather(folders, records)
    comparison = compare_runs(records, options, title, evidence)
    unkept = keep_look(evidence, comparison.arms, comparison.baseline, comparison.contrasts)
    return replace(comparison, warnings=[*comparison.warnings, unkept]) if unkept else comparison


def compare_runs(records: Records, options: Options, title: str, evidence: Evidence = UNDECLARED) -> Comparison:
    """Compare runs that are loaded already, from wherever. Raises as compare does."""
    runs = [*records.runs, *records.diverged]
    if not records.runs:
        reasons = "; ".join(
            [f"{run.folder.name} diverged at step {run.diverged_at}" for run in records.diverged]
            + [f"{run.folder.name} {run.reason}" for run in records.unfinished]
        )
        raise UsageError(f"{title}: no run is finished: {reasons}")
    declared = declaration(runs)
    differ, factor, overruled = _find_factor(runs, declared, options.allow)
    arms, warnings = group(records, factor, list(differ))
    baseline = find_baseline(str(options.baseline or declared.baseline or arms[0].name), arms)
    metric = find_metric(options.metric or declared.metric or "wer")
    check_comparable(metric, records.runs)
    sets = measured_sets(metric, records.runs)
    primary = _primary(options, declared, sets)
    chosen, others = _chosen_afterwards(options, declared, arms, baseline)
    family = Family(arms, baseline, questions(arms, baseline, factor, declared.contrasts), evidence.procedure, others)
    measured, uncompared = contrasts(family, sets, primary, metric.name)
    noise = known_noise(evidence.folder, arms, primary, metric)
    verdicts = [verdict(contrast, arms, noise) for contrast in measured]
    rows = table_rows(arms, sets)
    targets = [metric.check_target(target) for target in options.targets or _declared_targets(declared, metric)]
    times, untimed = times_to_accuracy(arms, metric, targets)
    return Comparison(
        title=title,
        question=declared.question,
        source=declared.source,
        factor=factor,
        baseline=baseline.name,
        arms=arms,
        sets=sets,
        rows=rows,
        verdicts=verdicts,
        times_to_accuracy=times,
        literature=beside_the_literature(declared, arms, baseline, rows, verdicts),
        warnings=[
            *records.warnings,
            *chosen,
            *_overruled(overruled),
            *warnings,
            *circumstance_warnings(arms),
            *uncompared,
            *untimed,
        ],
        unfinished=records.unfinished,
        differing={key: [value_text(value) for value in values] for key, values in differ.items()},
        metric=metric.name,
        set=primary,
        evidence=evidence,
        equal_cost=at_equal_cost(arms, metric),
        allowed=list(overruled),
    )


def _find_factor(
    runs: Sequence[RunRecord], declared: Declaration, allow: Sequence[str]
) -> tuple[Differing, list[str], Differing]:
    """All differing keys, the factor, and the keys beyond it, which all were allowed. Raises ConfoundedError."""
    differ = {key: values for key, values in differing(runs).items() if not within(key, replicated(runs))}
    factor = declared.factor or find_factor(runs, differ, allow)
    beyond = confounds(runs, factor, differ)
    refused = {key: values for key, values in beyond.items() if not within(key, allow)}
    if refused:
        raise ConfoundedError(factor, refused)
    return differ, factor, beyond


def _primary(options: Options, declared: Declaration, sets: Sequence[str]) -> str:
    """The test set that decides. Raises UsageError for one that was not tested."""
    name = options.set or declared.set or (sets[0] if sets else "")
    if sets and name not in sets:
        raise choices("set", name, list(sets))
    return name


def _chosen_afterwards(
    options: Options, declared: Declaration, arms: Sequence[Arm], baseline: Arm
) -> tuple[list[str], int]:
    """Warnings about what the command chose in place of what was declared, and for how many comparisons that could have
    been chosen instead the verdicts are corrected: with a free choice of the baseline, all pairs of arms.
    """
    warnings, others = [], 0
    default = declared.baseline or arms[0].name
    if options.baseline is not None and find_baseline(default, arms) is not baseline:
        others = len(arms) * (len(arms) - 1) // 2 - (len(arms) - 1)
        warnings.append(
            f"the baseline {baseline.name} was chosen by --baseline, in place of {default}: verdicts are corrected "
            "over all pairs of arms"
        )
    for name, given, own in (("metric", options.metric, declared.metric or "wer"), ("set", options.set, declared.set)):
        if given is not None and own is not None and given != own:
            warnings.append(
                f"the {name} {given} was chosen by --{name}, in place of {own}: its verdicts are exploratory"
            )
    return warnings, others


def _declared_targets(declared: Declaration, metric: Metric) -> list[float]:
    """The targets of the sweep file, where they are of this metric."""
    return declared.targets if metric.name == (declared.metric or WER.name) else []


def _overruled(beyond: Differing) -> list[str]:
    warning = "by --allow the arms also differ in {} ({}): the effect of the factor cannot be separated from it"
    return [warning.format(key, ", ".join(map(value_text, values))) for key, values in beyond.items()]
