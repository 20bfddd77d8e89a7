"""The design of a comparison, chosen before any measurement: arms, baseline, questions, metric and test sets."""

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
    differing_beyond_seeds,
    find_factor,
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
    """Command-line options for a comparison, which override the sweep file.

    - allow: config keys or groups, besides the factor, in which arms may differ
    - set: primary test set, whose verdicts are the answer
    - targets: values of the metric for which the time to accuracy is reported, with error rates as fractions
    """

    baseline: str | None = None
    allow: list[str] = field(default_factory=list)
    metric: str | None = None
    set: str | None = None
    targets: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Layout(Generic[AnArm]):
    """Runs grouped into arms, which are of type `Arm`, or of type `Choice` if runs may not have started yet.

    - differ: all config keys that differ between runs, with their distinct values
    - overruled: confounding keys that were accepted by --allow
    - default: name of the baseline unless the user chooses another; None means the first arm of the sweep
    - changes: for a sweep with a list of arms, the changes that each arm declares, as text
    - plan: plan whose looks (interim analyses) answer the questions; None if the sweep has no plan
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
        """All config keys that differ between runs, with their distinct values as text."""
        return {key: [value_text(value) for value in values] for key, values in self.differ.items()}


@dataclass(frozen=True, kw_only=True)
class Design:
    """The questions of a comparison, with the arms, baseline, metric and test sets that they are about.

    - primary: test set whose verdicts are the answer
    - size: minimum number of comparisons to correct for
    - chosen: warnings about options that replace declared choices
    - targets: values of the metric for which the time to accuracy is reported, with error rates as fractions
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
        """The largest difference that would not matter, on the declared scale; None if no margin was declared."""
        declared = self.layout.declared
        if declared.margin is None:
            return None
        return margin_on(declared.margin, declared.scale, self.metric.scale, "ablation.margin")


def assign(records: Records, options: Options, layout: Layout[Arm] | None = None) -> Design:
    """Group runs into arms, and choose the questions. layout: the arms, by default one for each choice for the factor.

    Raises ConfoundedError if the runs differ in more than the factor, and UsageError if a question cannot be answered.
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
    declared_targets = declared.targets if metric.name == (declared.metric or "wer") else []
    chosen, size = _chosen_afterwards(options, declared, default, arms, baseline)
    # the runs of a search were partly chosen by luck, so they get no verdicts unless a baseline or contrast is declared
    searched = is_search(arms) and not (options.baseline or declared.baseline or declared.contrasts)
    return Design(
        layout=layout,
        baseline=baseline,
        metric=metric,
        sets=sets,
        primary=primary_set(options.set or declared.set, sets),
        questions=[] if searched else questions(arms, baseline, layout.factor, declared.contrasts),
        size=size,
        chosen=chosen,
        targets=[metric.check_target(target) for target in options.targets or declared_targets],
    )


def lay_out_by_factor(runs: Sequence[AnyRun], options: Options) -> Layout[Choice[AnyRun]]:
    """Group runs by the declared factor or the only key that differs. Raises ConfoundedError if more keys differ."""
    declared = declaration(runs)
    differ, factor, overruled = find_or_check_factor(runs, declared, options.allow)
    return Layout(declared, factor, differ, overruled, group(runs, factor, list(differ)), declared.baseline)


def fill_layout(
    layout: Layout[Choice[Record]], unfinished: Sequence[Unfinished], warnings: Sequence[str] = ()
) -> Layout[Arm]:
    """Turn each choice in a layout into an arm with results. warnings: warnings to show before those about arms."""
    arms, reasons = fill_arms(layout.arms, unfinished, list(layout.differ))
    return Layout(**{**vars(layout), "arms": arms, "warnings": [*warnings, *reasons]})


def _check_allowed(allow: Sequence[str], runs: Sequence[ConfiguredRun]) -> None:
    """Raise UsageError if a key given by --allow occurs in no run's config."""
    keys = list(dict.fromkeys(key for run in runs for key in run.content))
    for key in allow:
        if keys and not any(within(name, [key]) for name in keys):
            near = ", ".join(get_close_matches(key, keys, n=3)) or "a key of config.yaml, or a group"
            raise choices("allow", key, near)


def find_or_check_factor(
    runs: Sequence[ConfiguredRun], declared: Declaration, allow: Sequence[str]
) -> tuple[Differing, list[str], Differing]:
    """Return the differing keys, the factor, and the confounds. Raises ConfoundedError unless `allow` covers these."""
    differ = differing_beyond_seeds(runs)
    factor = declared.factor or find_factor(runs, differ, allow)
    beyond = confounds(runs, factor, differ)
    refused = {key: values for key, values in beyond.items() if not within(key, allow)}
    if refused:
        raise ConfoundedError(factor, refused)
    return differ, factor, beyond


def primary_set(name: str | None, sets: Sequence[str]) -> str:
    """Return the primary test set: `name` or, if it is None, the first set. Raises UsageError if it has no results."""
    name = name or (sets[0] if sets else "")
    if sets and name not in sets:
        raise choices("set", name, list(sets))
    return name


def _first_named(arms: Sequence[Arm]) -> Arm:
    """Return the first arm in the order of the sweep or, if this order is unknown, the arm that started first."""
    places = [[run.place for run in arm.results if run.place is not None] for arm in arms]
    return min(zip(arms, places, strict=True), key=lambda pair: min(pair[1], default=float("inf")))[0]


def _chosen_afterwards(
    options: Options, declared: Declaration, default: str, arms: Sequence[Arm], baseline: Arm
) -> tuple[list[str], int]:
    """Return warnings about options that replace declared choices, and the minimum number of comparisons.

    If --baseline selects an arm other than `default`, verdicts are corrected for comparisons between all pairs of arms.
    """
    warnings, size = [], 0
    if options.baseline is not None and find_baseline(default, arms) is not baseline:
        size = len(arms) * (len(arms) - 1) // 2
        warnings.append(
            f"the baseline {baseline.name} was chosen by --baseline instead of {default}: verdicts are corrected "
            "for all pairs of arms"
        )
    for name, given, original in (
        ("metric", options.metric, declared.metric or "wer"),
        ("set", options.set, declared.set),
    ):
        if given is not None and original is not None and given != original:
            warnings.append(
                f"the {name} {given} was chosen by --{name} instead of {original}: its verdicts are exploratory"
            )
    return warnings, size
