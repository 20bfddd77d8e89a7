"""Questions to the arms of a comparison, and the answers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from asr_verdicts.arms import NOT_LEARNED, Arm, has_learned, shared_start
from asr_verdicts.failures import DEFAULT, FailureRule, counts_text, missed
from asr_verdicts.metrics import SHARE, Metric, find_metric, format_interval, format_p
from asr_verdicts.scales import POINTS, RELATIVE, Scale
from asr_verdicts.statistics.distributions import fisher
from asr_verdicts.statistics.estimate import ONE_SPEAKER, UNKNOWN, Estimate
from asr_verdicts.statistics.intervals import Range
from asr_verdicts.statistics.power import Levers
from asr_verdicts.statistics.procedures import FIXED, Procedure
from asr_verdicts.statistics.sample import SPEAKERS

Outcome = Literal[
    "better",
    "worse",
    "equivalent",
    "typical runs equivalent",
    "no difference shown",
    "interaction shown",
    "no interaction shown",
    "not learned",
    "undecided",
    "open",
]
"""The outcomes of a contrast. equivalent: within the margin. typical runs equivalent: so are the runs that did not
fail, but some failed, and how often may differ. not learned: neither side has. undecided: the evidence cannot decide,
and the sentence says why. open: a plan adds further runs.
"""

SHOWN: tuple[Outcome, ...] = ("better", "worse", "interaction shown")
"""The outcomes that claim a difference."""
EQUIVALENT: tuple[Outcome, ...] = ("equivalent", "typical runs equivalent")
"""The outcomes that claim equality."""

Grade = Literal["beyond the margin", "size unclear", "less than the margin"]
"""How large a difference that is shown is: the whole interval is beyond the margin; it is measured beyond it, and the
interval is not; it is measured within.
"""
AGAIN = {
    "beyond the margin": "100 %",
    "size unclear": "88 to 93 %",
    "less than the margin": "53 to 67 %",
    "equivalent": "60 to 76 %",
}
"""How often a planned verdict is the same when the plan asks once more with fresh seeds: by its grade, and of equality.
Simulated (docs/statistics.md, How large).
"""


Kind = Literal["arm", "main effect", "simple effect", "interaction"]


@dataclass(frozen=True)
class Question:
    """The question of a contrast: Σ weight · mean over the arms.

    arm, baseline: the two sides as a reader calls them; within: where an effect of one factor is measured, such as
    "norm=none", or what it is averaged over; empty for an arm against the baseline.
    """

    kind: Kind
    arm: str
    baseline: str
    weights: dict[str, float]
    within: str = ""

    @property
    def name(self) -> str:
        """The question in the words of the tables."""
        return f"{self.arm}{f' ({self.within})' if self.within else ''}"


@dataclass(frozen=True)
class AtLook:
    """At which planned look a contrast stands.

    number: counted from 1, of `of`; runs: of each arm at this look; most: at the last one. margin: the difference that
    would not matter; low, high: the interval that has to lie within it for the arms to be equivalent, all three on the
    scale that decides, which is of logarithms where it is relative. chance: of a
    verdict by the last look; None where it was not asked for. levers: what would show equal arms to be equivalent.
    """

    number: int
    of: int
    runs: int
    most: int
    margin: float
    low: float
    high: float
    chance: float | None = None
    levers: Levers | None = None


@dataclass(frozen=True)
class Verdict:
    """A question on a test set. Rates and differences of rates are fractions, not percent.

    primary: on the declared set, whose verdicts are the answer; the other sets are descriptive. seeds: the results
    that count, by arm; failed: how many of them failed, by `rule`; diverged: those among these that diverged. rate,
    baseline_rate, difference: of the arm's rate less the baseline's, over the utterances that all runs have; of trimmed
    means where the estimate is trimmed.

    estimate: on the scale that decides, with its noise of seeds and speakers; None where the evidence has no noise to
    judge by, and `reason` says why; other: on the other scale. margin: the difference that would not matter, on the
    scale that decides; None: none was declared. relative: the difference of the logarithms with the interval at the
    level of the verdict; None where a rate is 0. superiority: the share of pairs of runs in which the arm's is better.
    alone: each arm is one system, of which alone the contrast speaks.

    procedure: of the test; p: before, p_adjusted: after Holm's correction over the `family` contrasts of the set.
    level: the two-sided α at which Holm's procedure decided this contrast; low, high: the interval in points at that
    level. The interval on the scale that decides excludes 0 exactly where a difference is shown.

    detectable: the true difference that such runs find in four cases of five, with a 90 % interval of its own; levers:
    the seeds, or the test speakers, that would find other true differences, once declared. repeated: the chance that as
    many fresh runs on the same test speakers get the same verdict (statistics.power, repetition); None where the noise
    of seeds is unknown, and at a planned look.

    p_pairs: matched pairs (MAPSSWE) of these trained models, and after Holm's correction over the family; nan where a
    record has no utterances. look: in a sweep with a plan, the look that decided it, or the latest one.
    """

    question: Question
    set: str
    metric: str
    primary: bool
    rate: float
    baseline_rate: float
    seeds: dict[str, int]
    failed: dict[str, int]
    diverged: dict[str, int]
    difference: float
    outcome: Outcome
    estimate: Estimate | None = None
    other: Estimate | None = None
    reason: str = ""
    procedure: Procedure = FIXED
    p: float | None = None
    p_adjusted: float | None = None
    level: float | None = None
    low: float | None = None
    high: float | None = None
    detectable: Range | None = None
    levers: dict[float, Levers] = field(default_factory=dict)
    repeated: float | None = None
    p_pairs: float = math.nan
    p_pairs_holm: float = math.nan
    family: int = 1
    margin: float | None = None
    relative: Range | None = None
    superiority: float | None = None
    alone: bool = False
    rule: FailureRule = DEFAULT
    look: AtLook | None = None
    sentence: str = ""

    def __str__(self) -> str:
        return self.sentence

    @property
    def arm(self) -> str:
        return self.question.name

    @property
    def baseline(self) -> str:
        return self.question.baseline

    @property
    def scale(self) -> Scale:
        """The scale that decides."""
        return POINTS if self.estimate is None else self.estimate.scale

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends in points, as fractions; None without finite ones."""
        if self.low is None or self.high is None or not math.isfinite(self.high - self.low):
            return None
        return self.low, self.high

    @property
    def decided(self) -> Range | None:
        """The difference with its interval on the scale that decides; None without an interval."""
        if self.scale is RELATIVE:
            return self.relative
        return None if self.low is None or self.high is None else Range(self.difference, self.low, self.high)

    @property
    def grade(self) -> Grade | None:
        """How large a shown difference is against the margin; None where none is shown or none was declared."""
        if self.outcome not in SHOWN or self.margin is None or (found := self.decided) is None:
            return None
        if abs(found.value) < self.margin:
            return "less than the margin"
        return "beyond the margin" if min(abs(found.low), abs(found.high)) >= self.margin else "size unclear"

    @property
    def again(self) -> str | None:
        """How often the verdict is the same when the question is asked once more: by a plan as simulated, else as its
        noise predicts. None where that is not known.
        """
        if self.look is None:
            return None if self.repeated is None else f"{100 * self.repeated:.0f} %"
        return None if self.immaterial else AGAIN.get(self.grade or self.outcome)

    @property
    def immaterial(self) -> bool:
        """True if a difference is shown whose whole interval lies within the margin: different, and equivalent."""
        found = self.decided
        if self.outcome not in SHOWN or self.margin is None or found is None:
            return False
        return -self.margin < found.low and found.high < self.margin


def write_sentence(verdict: Verdict, arms: Sequence[Arm], noise: str) -> str:
    """The verdict in words. arms: all of the comparison; noise: what is known of the noise of seeds, for arms with one
    seed.
    """
    sides = [arm for arm in arms if arm.name in verdict.question.weights]
    parts = [_finding(verdict, noise), *_runs(verdict, sides)]
    return "; ".join(part for part in parts if part)


def _finding(contrast: Verdict, noise: str) -> str:
    metric = find_metric(contrast.metric)
    if contrast.outcome == "not learned":
        names = " nor ".join(dict.fromkeys(contrast.question.weights))
        return f"no verdict on {contrast.set}: neither {names} has learned (WER above {100 * NOT_LEARNED:.0f} %)"
    if contrast.look is not None and contrast.outcome not in SHOWN and contrast.estimate is not None:
        return _without_difference(contrast, contrast.look, metric)
    if contrast.estimate is None or contrast.p is None or contrast.p_adjusted is None:
        return _undecided(contrast, metric, noise)
    evidence = f"{_interval(contrast, metric)}; {_p(contrast)}; {_extent(contrast)}{_matched(contrast)}"
    size = f"{_rates(contrast, metric)}{_size(contrast, metric)} ({evidence}){_other_scale(contrast, metric)}"
    if contrast.outcome in ("worse", "better"):
        finding = f"{_sides(contrast, f'is {contrast.outcome} than')} on {contrast.set}: {size}"
    elif contrast.question.kind == "interaction":
        shown = "depends" if contrast.outcome == "interaction shown" else "is not shown to depend"
        effect = f"the effect of {contrast.arm.partition(' (')[0]} against {contrast.baseline}"
        finding = f"{effect} {shown} on the other factor on {contrast.set} ({contrast.question.within}): {size}"
    elif contrast.outcome in EQUIVALENT:
        return f"{_equivalent(contrast, metric)}: {_sides(contrast, 'and')} on {contrast.set}, {size}"
    else:
        finding = f"no difference shown: {_sides(contrast, 'and')} on {contrast.set}, {size}"
    return (
        f"{finding}{_grade(contrast, metric)}" if contrast.outcome in SHOWN else f"{finding}{_power(contrast, metric)}"
    )


def _matched(contrast: Verdict) -> str:
    """The matched pairs beside the interval, where both speak of one system of each arm."""
    if not contrast.alone or math.isnan(contrast.p_pairs):
        return ""
    return f"; matched pairs (MAPSSWE) {format_p(contrast.p_pairs_holm, 'p')}"


def _rates(contrast: Verdict, metric: Metric) -> str:
    """Both rates, of the arm and of the baseline; none of an interaction, which has four."""
    if contrast.question.kind == "interaction":
        return ""
    unit = f" {metric.unit}" if metric.is_rate else ""
    return f"{metric.text(contrast.rate)} against {metric.text(contrast.baseline_rate)}{unit}, "


def _other_scale(contrast: Verdict, metric: Metric) -> str:
    """The difference on the scale that does not decide."""
    if contrast.scale is RELATIVE:
        ends = (contrast.low, contrast.high)
        if contrast.question.kind == "interaction" or None in ends:
            return ""
        return f", {metric.text(contrast.difference, sign=True)} {metric.amount} ({format_interval(*ends, metric)})"
    found = contrast.relative
    if found is None:
        return ""
    unsure = contrast.outcome in ("worse", "better") and -math.inf < found.low < 0 < found.high
    return f", relative {_relative_ends(found)}{', which shows no difference on this scale' if unsure else ''}"


def _relative_ends(found: Range) -> str:
    """A relative difference with its interval, if that has an end."""
    value = SHARE.text(RELATIVE.fraction(found.value), sign=True)
    ends = format_interval(RELATIVE.fraction(found.low), RELATIVE.fraction(found.high), SHARE, otherwise="")
    return f"{value} % ({ends})" if ends else f"{value} %"


def _grade(contrast: Verdict, metric: Metric) -> str:
    """How large a shown difference is against the margin; docs/statistics.md says how often each comes again."""
    if contrast.margin is None or contrast.grade is None:
        return ""
    margin = contrast.scale.margin(contrast.margin, metric)
    if contrast.immaterial:
        return f"; different, and equivalent within {margin}"
    return {
        "beyond the margin": f"; more than the margin of {margin}",
        "size unclear": f"; whether more or less than the margin of {margin} is unclear",
        "less than the margin": f"; less than the margin of {margin}, as measured",
    }[contrast.grade]


def _equivalent(contrast: Verdict, metric: Metric) -> str:
    assert contrast.margin is not None
    which = "typical runs equivalent" if contrast.outcome == "typical runs equivalent" else "equivalent"
    return f"{which} within {contrast.scale.margin(contrast.margin, metric)}"


def _without_difference(contrast: Verdict, look: AtLook, metric: Metric) -> str:
    """The sentence of a planned look that shows no difference: equivalent, undecided, or still open."""
    margin = contrast.scale.margin(look.margin, metric)
    where = f"{_sides(contrast, 'and')} on {contrast.set}"
    size = f"{_rates(contrast, metric)}{_size(contrast, metric)}"
    if contrast.outcome in EQUIVALENT:
        within = contrast.scale.interval(look.low, look.high, metric)
        evidence = f"{within}; look {look.number} of {look.of}; {_extent(contrast)}"
        return f"{_equivalent(contrast, metric)}: {where}, {size} ({evidence})"
    if contrast.reason:
        return f"{contrast.outcome}: {where}, {size}, but {contrast.reason} (look {look.number} of {look.of})"
    evidence = f"{_interval(contrast, metric)}; look {look.number} of {look.of}; {_extent(contrast)}"
    finding = f"{contrast.outcome}: {where}, {size} ({evidence})"
    if contrast.outcome == "open":
        return f"{finding}, neither different nor equivalent within {margin} so far"
    why = f"neither different nor equivalent within {margin} after {look.runs} runs of each arm"
    if look.number < look.of:
        why = f"{why}, and given up: the chance of a verdict by {look.most} runs is {100 * (look.chance or 0):.0f} %"
    return f"{finding}, {why}; {_lever(contrast, look, margin)}"


def _lever(contrast: Verdict, look: AtLook, margin: str) -> str:
    """The runs that would decide a question that the plan leaves open."""
    needed = look.levers
    if needed is None:
        return f"no noise is known, so nothing tells what would; {contrast.reason}"
    units = f"test {units_text(contrast)}"
    ways = {
        "seeds": f"{margin} would take about {needed.seeds} seeds an arm; {units} are not the limit",
        "speakers": f"{margin} would take about {needed.speakers} {units}; seeds are not the limit",
        "neither": f"{margin} is out of reach of more seeds alone and of more {units} alone: widen the margin",
        "none": f"so many runs mostly decide within {margin}: the true difference is probably near it",
    }
    return ways[needed.cheaper]


def units_text(contrast: Verdict) -> str:
    """What the utterances of a test set were drawn with: speakers, or voices that speakers share."""
    estimate = contrast.estimate
    return SPEAKERS if estimate is None or estimate.unit == ONE_SPEAKER else estimate.unit


def _size(contrast: Verdict, metric: Metric) -> str:
    if contrast.relative is None:
        return POINTS.size(contrast.difference, metric)
    return contrast.scale.size(contrast.difference if contrast.scale is POINTS else contrast.relative.value, metric)


def _sides(contrast: Verdict, verb: str) -> str:
    question = contrast.question
    return f"{question.arm} {verb} {question.baseline}{f' {question.within}' if question.within else ''}"


def _undecided(contrast: Verdict, metric: Metric, noise: str) -> str:
    size = f"{_size(contrast, metric)} on {contrast.set}"
    if not math.isnan(contrast.p_pairs):
        size = f"{size} (matched pairs {format_p(contrast.p_pairs_holm, 'p')}, of these models alone)"
    finding = f"undecided: {_sides(contrast, 'against')} {size}, but {contrast.reason}"
    return f"{finding}; {noise}" if noise and min(contrast.seeds.values()) < 2 else finding


def _interval(contrast: Verdict, metric: Metric) -> str:
    """The interval at the level of the verdict."""
    found = contrast.decided
    text = "" if found is None else contrast.scale.interval(found.low, found.high, metric)
    return text or "no finite interval yet"


def _p(contrast: Verdict) -> str:
    assert contrast.p_adjusted is not None
    corrected = f" after Holm's correction over {contrast.family}" if contrast.family > 1 else ""
    return f"{format_p(contrast.p_adjusted, 'p')}{corrected}{contrast.procedure.condition}"


def _extent(contrast: Verdict) -> str:
    """The number of models and units behind the verdict."""
    estimate = contrast.estimate
    assert estimate is not None
    counts = sorted(set(contrast.seeds.values()))
    if estimate.paired:
        models = (
            "of these systems alone"
            if contrast.alone
            else "one trained model, of which alone it speaks"
            if estimate.models == 1
            else f"{estimate.models} models in pairs"
        )
    else:
        models = f"{' and '.join(map(str, counts))} seed{'s' if counts[-1] > 1 else ''}"
    trimmed = ", typical runs by trimmed means" if estimate.trimmed else ""
    return f"{models}{trimmed}, {speakers_text(estimate)}"


def speakers_text(estimate: Estimate) -> str:
    """The number of speakers, or other units, behind an estimate."""
    if not estimate.speakers:
        return (
            "each with speakers of its own" if estimate.paired else "speakers left out, since there are no utterances"
        )
    if estimate.unit == ONE_SPEAKER:
        return "one speaker, whose utterances stand in for speakers"
    count = f"{estimate.speakers} {estimate.unit}"
    if estimate.unit in UNKNOWN:
        return f"{count}; {UNKNOWN_SPEAKERS}"
    few = estimate.effective < FEW * estimate.speakers
    return f"{count}, which count as {estimate.effective:.0f}, since few carry the errors" if few else count


UNKNOWN_SPEAKERS = "speakers unknown, so the interval is too narrow where one speaker has several"
FEW = 0.4
"""Share of the speakers below which the sentence names their effective number: the interval is then too narrow."""


def _power(contrast: Verdict, metric: Metric) -> str:
    """The difference that these runs would have found."""
    found = contrast.detectable
    if found is None or not math.isfinite(found.value):
        return "; nothing could be found with so few runs"
    size = metric.text(found.value)
    range_ = f"{metric.text(found.low)} to {metric.text(found.high)}"
    return f"; such runs find a true difference of {size} ({range_}) in four cases of five"


def _runs(contrast: Verdict, sides: Sequence[Arm]) -> list[str]:
    """The runs that a reader has to know of: trained on speakers of the set, diverged, unlearned and absent ones."""
    trained = dict.fromkeys(run.data.trained_on(contrast.set) for arm in sides for run in arm.runs)
    notes = [*filter(None, trained)]
    notes += [start for arm in sides if (start := shared_start(arm))]
    for arm in sides:
        failed, diverged = contrast.failed.get(arm.name, 0), len(arm.diverged)
        if diverged and contrast.estimate is not None and not contrast.estimate.trimmed and contrast.metric == "wer":
            notes.append(f"{diverged} of {len(arm.results)} runs of {arm.name} diverged and count as 100 % WER")
        elif failed:
            how = "diverged" if failed == diverged else contrast.rule.text
            notes.append(f"{failed} of {len(arm.results)} runs of {arm.name} {how}")
        if failed and contrast.metric == "wer" and arm.runs:
            worst = max((rate for run in arm.runs if (rate := run.value(contrast.set, "wer")) is not None), default=0.0)
            notes.append(f"the worst run of {arm.name} that ended has {100 * worst:.2f} %")
        poor = [run for run in arm.runs if not has_learned(Arm(arm.name, [run]), contrast.set)]
        if contrast.metric == "wer" and poor and contrast.outcome != "not learned":
            notes.append(f"{len(poor)} of {len(arm.results)} runs of {arm.name} have not learned")
        states = [run.state for run in arm.absent]
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        if counts:
            notes.append(f"{arm.name} lacks {len(states)} of {len(states) + len(arm.results)} runs ({counts})")
    return [*notes, *_failures(contrast)]


def _failures(contrast: Verdict) -> list[str]:
    """How often runs fail in the two arms of a question, and what so few runs can show of it."""
    if contrast.question.kind != "arm" or contrast.estimate is None or contrast.estimate.paired:
        return []
    counts = [(name, contrast.failed[name], contrast.seeds[name]) for name in contrast.question.weights]
    if not any(failed for _, failed, _ in counts):
        if contrast.outcome not in EQUIVALENT:
            return []
        fewest = min(runs for _, _, runs in counts)
        return [
            f"no run failed, and {fewest} runs miss a failure rate of 10 % in {100 * missed(fewest):.0f} % of cases"
        ]
    (_, first, runs), (_, second, others) = counts
    p = fisher(first, runs, second, others)
    return [f"failures: {counts_text(counts)}, 95 %; Fisher's exact test {format_p(p, 'p')}"]
