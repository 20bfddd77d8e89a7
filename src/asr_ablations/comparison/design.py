"""The design of a comparison, before any measurement: arms, baseline, questions, metric, sets."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from asr_ablations.comparison.arms import Arm, find_baseline, group
from asr_ablations.comparison.confounds import (
    ConfoundedError,
    Differing,
    confounds,
    content,
    differing,
    find_factor,
    replicated,
    within,
)
from asr_ablations.comparison.contrast import Question
from asr_ablations.comparison.declaration import Declaration, declaration
from asr_ablations.comparison.derived_tables import is_search
from asr_ablations.comparison.metrics import Metric, check_comparable, find_metric, measured_sets
from asr_ablations.comparison.planned_looks import planned_arms
from asr_ablations.comparison.questions import (
    beyond_the_list,
    changes_of,
    default_baseline,
    explained,
    in_order,
    listed_arms,
    of_the_list,
    questions,
)
from asr_ablations.runs.listed_arms import OWN
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.records import Records
from asr_ablations.runs.verdict_plan import VerdictPlan
from asr_ablations.tools.errors import choices


@dataclass(frozen=True)
class Options:
    """The choices of a user that override the sweep file. targets: of the metric, rates as fractions."""

    baseline: str | None = None
    allow: list[str] = field(default_factory=list)
    metric: str | None = None
    set: str | None = None
    targets: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Design:
    """differ: all keys that differ; overruled: those beyond the factor that --allow accepted. primary: the set that
    decides. size: comparisons that are corrected for at least. chosen: warnings about what was chosen afterwards.
    changes: of a sweep that lists its arms, what each of them changes.
    """

    declared: Declaration
    factor: list[str]
    differ: Differing
    overruled: Differing
    arms: list[Arm]
    baseline: Arm
    metric: Metric
    sets: list[str]
    primary: str
    questions: list[Question]
    size: int
    chosen: list[str]
    warnings: list[str]
    changes: dict[str, str] = field(default_factory=dict)


def design_of(records: Records, options: Options, plan: VerdictPlan | None = None) -> Design:
    """plan: of the sweep, where it has one; its arms are those that it names, with or without results.

    Raises ConfoundedError where the runs differ in more than the factor, and UsageError for what cannot be asked.
    """
    runs = [*records.runs, *records.diverged]
    _check_allowed(options.allow, runs)
    if plan is not None:
        arms, warnings = planned_arms(plan, records)
        runs = [run for arm in arms for run in arm.results]
    declared = declaration(runs)
    default, changes = declared.baseline, {}
    if plan is not None and plan.listed:  # its arms differ as they did when it was made
        differ, factor, overruled = _differing(runs), [OWN, *declared.factor], {}
        default, changes = plan.baseline, plan.listed
    elif plan is None and (listed := listed_arms(runs)):
        records, left_out = of_the_list(records, listed)
        differ, factor = _differing([*records.runs, *records.diverged]), [OWN, *declared.factor]
        arms, warnings = group(records, factor, list(differ), explained(listed, [*records.runs, *records.diverged]))
        arms, warnings = in_order(arms, listed), [*left_out, *warnings]
        default, changes = default or default_baseline(arms, listed), changes_of(arms, listed)
        reference = find_baseline(str(options.baseline or default), arms)
        overruled = beyond_the_list(arms, reference, listed, declared.factor, options.allow)
    else:
        differ, factor, overruled = _find_factor(runs, declared, options.allow)
        if plan is None:
            arms, warnings = group(records, factor, list(differ))
    default = default or _first_named(arms).name
    baseline = find_baseline(str(options.baseline or default), arms)
    metric = find_metric(options.metric or declared.metric or "wer")
    check_comparable(metric, records.runs)
    sets = measured_sets(metric, records.runs)
    chosen, size = _chosen_afterwards(options, declared, default, arms, baseline)
    return Design(
        declared=declared,
        factor=factor,
        differ=differ,
        overruled=overruled,
        arms=arms,
        baseline=baseline,
        metric=metric,
        sets=sets,
        primary=_primary(options, declared, sets),
        questions=[]
        if _only_searched(arms, options, declared)
        else questions(arms, baseline, factor, declared.contrasts),
        size=size,
        chosen=chosen,
        warnings=warnings,
        changes=changes,
    )


def _only_searched(arms: Sequence[Arm], options: Options, declared: Declaration) -> bool:
    """True if all runs are a search's, and no question is asked: a search chooses by luck, too."""
    return is_search(arms) and options.baseline is None and declared.baseline is None and not declared.contrasts


def _check_allowed(allow: Sequence[str], runs: Sequence[RunRecord]) -> None:
    """Raises UsageError for a key of --allow that no run has: it would excuse nothing."""
    known = list(dict.fromkeys(key for run in runs for key in content(run)))
    for key in allow:
        if known and not any(within(name, [key]) for name in known):
            near = ", ".join(get_close_matches(key, known, n=3)) or "a key of config.yaml, or a group"
            raise choices("allow", key, near)


def _differing(runs: Sequence[RunRecord]) -> Differing:
    """All keys that differ and that are no matter of the seed."""
    return {key: values for key, values in differing(runs).items() if not within(key, replicated(runs))}


def _find_factor(
    runs: Sequence[RunRecord], declared: Declaration, allow: Sequence[str]
) -> tuple[Differing, list[str], Differing]:
    """All differing keys, the factor, and the keys beyond it, which all were allowed. Raises ConfoundedError."""
    differ = _differing(runs)
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


def _first_named(arms: Sequence[Arm]) -> Arm:
    """The arm whose run was named first where its sweep was launched, or else was started first."""

    def place(arm: Arm) -> float:
        return min((run.place for run in arm.results if run.place is not None), default=float("inf"))

    return min(arms, key=place)


def _chosen_afterwards(
    options: Options, declared: Declaration, default: str, arms: Sequence[Arm], baseline: Arm
) -> tuple[list[str], int]:
    """Warnings about what the command chose in place of what was declared, and over how many comparisons the verdicts
    are corrected at least: with a free choice of the baseline, all pairs of arms. default: the baseline otherwise.
    """
    warnings, size = [], 0
    if options.baseline is not None and find_baseline(default, arms) is not baseline:
        size = len(arms) * (len(arms) - 1) // 2
        warnings.append(
            f"the baseline {baseline.name} was chosen by --baseline, in place of {default}: verdicts are corrected "
            "over all pairs of arms"
        )
    for name, given, own in (("metric", options.metric, declared.metric or "wer"), ("set", options.set, declared.set)):
        if given is not None and own is not None and given != own:
            warnings.append(
                f"the {name} {given} was chosen by --{name}, in place of {own}: its verdicts are exploratory"
            )
    return warnings, size
