"""The design of a comparison, before any measurement: arms, baseline, questions, metric, sets."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Generic

from asr_verdicts.arms import AnArm, Arm, Choice, fill_arms, find_baseline, group, is_search
from asr_verdicts.config import within
from asr_verdicts.confounds import (
    ConfoundedError,
    Differing,
    confounds,
    differing,
    find_factor,
    replicated,
    value_text,
)
from asr_verdicts.declaration import Declaration, declaration, margin_on
from asr_verdicts.errors import choices
from asr_verdicts.metrics import Metric, check_comparable, find_metric, measured_sets
from asr_verdicts.plan import VerdictPlan
from asr_verdicts.questions import questions
from asr_verdicts.record import AnyRun, ConfiguredRun, Record, Records, Unfinished
from asr_verdicts.verdict import Question


@dataclass(frozen=True)
class Options:
    """A user's choices, which override the sweep file. targets: of the metric, rates as fractions."""

    baseline: str | None = None
    allow: list[str] = field(default_factory=list)
    metric: str | None = None
    set: str | None = None
    targets: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Layout(Generic[AnArm]):
    """The runs grouped into arms: as `Arm` if they have begun, as `Choice` in any case.

    - differ: all keys that differ; overruled: keys beyond the factor that --allow accepted
    - default: the baseline unless the user names another; None for the arm that was named first
    - changes: the change that each arm of a list declares, as text
    - plan: its looks answer the questions; None for a sweep without a plan
    """

    declared: Declaration
    factor: list[str]
    differ: Differing
    overruled: Differing
    arms: list[AnArm]
    default: str | None
    warnings: list[str] = field(default_factory=list)
    changes: dict[str, str] = field(default_factory=dict)
    plan: VerdictPlan | None = None

    @property
    def differing(self) -> dict[str, list[str]]:
        """All keys that differ, with their values as text."""
        return {key: [value_text(value) for value in values] for key, values in self.differ.items()}


@dataclass(frozen=True, kw_only=True)
class Design:
    """The questions of a comparison: arms, baseline, metric and sets.

    - primary: the set that decides; size: the least number of comparisons to correct for
    - chosen: warnings about choices made afterwards; targets: for the time to accuracy, in recorded units
    """

    layout: Layout[Arm]
    baseline: Arm
    metric: Metric
    sets: list[str]
    primary: str
    questions: list[Question]
    size: int
    chosen: list[str]
    targets: list[float]

    @property
    def margin(self) -> float | None:
        """The difference that would not matter, on the scale that decides; None if undeclared."""
        declared = self.layout.declared
        if declared.margin is None:
            return None
        return margin_on(declared.margin, declared.scale, self.metric.scale, "ablation.margin")


def assign(records: Records, options: Options, layout: Layout[Arm] | None = None) -> Design:
    """Group runs into arms and choose the questions. layout: by default an arm for each choice of the factor.

    Raises ConfoundedError if the runs differ in more than the factor, and UsageError for an impossible question.
    """
    runs = [*records.runs, *records.diverged]
    _check_allowed(options.allow, runs)
    layout = layout or fill_layout(lay_out_by_factor(runs, options), records.unfinished)
    declared, arms = layout.declared, layout.arms
    default = layout.default or _first_named(arms).name
    baseline = find_baseline(str(options.baseline or default), arms)
    metric = find_metric(options.metric or declared.metric or "wer")
    check_comparable(metric, records.runs)
    sets = measured_sets(metric, records.runs)
    chosen, size = _chosen_afterwards(options, declared, default, arms, baseline)
    searched = _only_searched(arms, options, declared)
    return Design(
        layout=layout,
        baseline=baseline,
        metric=metric,
        sets=sets,
        primary=primary_set(options.set or declared.set, sets),
        questions=[] if searched else questions(arms, baseline, layout.factor, declared.contrasts),
        size=size,
        chosen=chosen,
        targets=[metric.check_target(target) for target in options.targets or _declared_targets(declared, metric)],
    )


def lay_out_by_factor(runs: Sequence[AnyRun], options: Options) -> Layout[Choice[AnyRun]]:
    """An arm for each choice of the declared factor, or of the only key that differs. Raises ConfoundedError."""
    declared = declaration(runs)
    differ, factor, overruled = find_or_check_factor(runs, declared, options.allow)
    return Layout(declared, factor, differ, overruled, group(runs, factor, list(differ)), declared.baseline)


def fill_layout(
    layout: Layout[Choice[Record]], unfinished: Sequence[Unfinished], warnings: Sequence[str] = ()
) -> Layout[Arm]:
    """The layout with the results of each arm. warnings: about runs that were left out before."""
    arms, reasons = fill_arms(layout.arms, unfinished, list(layout.differ))
    return Layout(**{**vars(layout), "arms": arms, "warnings": [*warnings, *reasons]})


def _only_searched(arms: Sequence[Arm], options: Options, declared: Declaration) -> bool:
    """Return whether a search proposed all runs and no question was asked. A search also chooses by luck."""
    return is_search(arms) and options.baseline is None and declared.baseline is None and not declared.contrasts


def _check_allowed(allow: Sequence[str], runs: Sequence[ConfiguredRun]) -> None:
    """Raise UsageError for a key of --allow that no run has: it would allow nothing."""
    keys = list(dict.fromkeys(key for run in runs for key in run.content))
    for key in allow:
        if keys and not any(within(name, [key]) for name in keys):
            near = ", ".join(get_close_matches(key, keys, n=3)) or "a key of config.yaml, or a group"
            raise choices("allow", key, near)


def differing_beyond_seeds(runs: Sequence[ConfiguredRun]) -> Differing:
    """All keys that differ, except those that change with the seed."""
    of_seeds = replicated(runs)
    return {key: values for key, values in differing(runs).items() if not within(key, of_seeds)}


def find_or_check_factor(
    runs: Sequence[ConfiguredRun], declared: Declaration, allow: Sequence[str]
) -> tuple[Differing, list[str], Differing]:
    """All keys that differ, the factor, and the allowed keys beyond it. Raises ConfoundedError for other keys."""
    differ = differing_beyond_seeds(runs)
    factor = declared.factor or find_factor(runs, differ, allow)
    beyond = confounds(runs, factor, differ)
    refused = {key: values for key, values in beyond.items() if not within(key, allow)}
    if refused:
        raise ConfoundedError(factor, refused)
    return differ, factor, beyond


def primary_set(name: str | None, sets: Sequence[str]) -> str:
    """The test set that decides, by default the first. Raises UsageError for a set that was not tested."""
    name = name or (sets[0] if sets else "")
    if sets and name not in sets:
        raise choices("set", name, list(sets))
    return name


def _first_named(arms: Sequence[Arm]) -> Arm:
    """The arm that its sweep's launch named first; if that is unknown, the arm that started first."""

    def place(arm: Arm) -> float:
        return min((run.place for run in arm.results if run.place is not None), default=float("inf"))

    return min(arms, key=place)


def _chosen_afterwards(
    options: Options, declared: Declaration, default: str, arms: Sequence[Arm], baseline: Arm
) -> tuple[list[str], int]:
    """Warnings about choices of the command that replace declared ones, and the least number of comparisons.

    If the baseline was chosen freely, verdicts are corrected over all pairs of arms. default: the baseline otherwise.
    """
    warnings, size = [], 0
    if options.baseline is not None and find_baseline(default, arms) is not baseline:
        size = len(arms) * (len(arms) - 1) // 2
        warnings.append(
            f"the baseline {baseline.name} was chosen by --baseline, in place of {default}: verdicts are corrected "
            "over all pairs of arms"
        )
    for name, given, original in (
        ("metric", options.metric, declared.metric or "wer"),
        ("set", options.set, declared.set),
    ):
        if given is not None and original is not None and given != original:
            warnings.append(
                f"the {name} {given} was chosen by --{name}, in place of {original}: its verdicts are exploratory"
            )
    return warnings, size


def _declared_targets(declared: Declaration, metric: Metric) -> list[float]:
    """The targets of the sweep file, if they are for this metric."""
    return declared.targets if metric.name == (declared.metric or "wer") else []
