"""Questions to the arms of a comparison, and their verdicts."""

import math
from dataclasses import dataclass, field
from typing import Literal

from asr_verdicts.failures import DEFAULT, FailureRule
from asr_verdicts.scales import POINTS, RELATIVE, Scale
from asr_verdicts.statistics.estimate import Estimate
from asr_verdicts.statistics.intervals import Range
from asr_verdicts.statistics.power import Levers
from asr_verdicts.statistics.procedures import FIXED, Procedure, equal_level

Outcome = Literal[
    "better",
    "worse",
    "equivalent",
    "typical runs equivalent",
    "not shown",
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
    def equal_interval(self) -> Range | None:
        """The interval on the scale that decides that has to lie within the margin for the arms to be equivalent."""
        if self.estimate is None:
            return None
        if self.look is not None:
            return Range(self.estimate.value, self.look.low, self.look.high)
        half = self.procedure.half_width(self.estimate, equal_level(self.procedure.alpha, self.family))
        return Range(self.estimate.value, self.estimate.value - half, self.estimate.value + half)

    @property
    def shown_margin(self) -> float | None:
        """The difference that would not matter as a fraction; None if none was declared."""
        return None if self.margin is None else self.scale.fraction(self.margin)

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
