"""The questions of a comparison, and their verdicts."""

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
"""The outcomes of a contrast. typical runs equivalent: some runs failed, and the failure rates may differ. not learned:
neither side has. undecided: the evidence cannot decide, and the sentence says why. open: a plan adds further runs.
"""

SHOWN: tuple[Outcome, ...] = ("better", "worse", "interaction shown")  # outcomes that claim a difference
EQUIVALENT: tuple[Outcome, ...] = ("equivalent", "typical runs equivalent")  # outcomes that claim equality

Grade = Literal["beyond the margin", "size unclear", "less than the margin"]
"""How large a shown difference is: the whole interval is beyond the margin; the measured difference is beyond it, but
not the whole interval; the measured difference is within it.
"""
AGAIN = {
    "beyond the margin": "100 %",
    "size unclear": "88 to 93 %",
    "less than the margin": "53 to 67 %",
    "equivalent": "60 to 76 %",
}
"""How often a planned verdict comes again if the plan asks once more with fresh seeds, by grade or for equality.
Simulated (docs/statistics.md, How large).
"""


Kind = Literal["arm", "main effect", "simple effect", "interaction"]


@dataclass(frozen=True)
class Question:
    """The question of a contrast: Σ weight · mean over the arms.

    arm, baseline: the names of the two sides. within: the place of an effect of one factor, such as "norm=none", or the
    factor it is averaged over; empty for an arm against the baseline.
    """

    kind: Kind
    arm: str
    baseline: str
    weights: dict[str, float]
    within: str = ""

    @property
    def name(self) -> str:
        """The question as tables name it."""
        return f"{self.arm}{f' ({self.within})' if self.within else ''}"


@dataclass(frozen=True)
class AtLook:
    """The planned look of a contrast.

    - number: from 1, of `of`; runs: of each arm at this look; most: at the last look
    - margin: the difference that would not matter; low, high: the interval that must lie within it for equivalence; all
      three on the scale that decides, as logarithms if it is relative
    - chance: of a verdict by the last look; None if not computed; levers: sizes that would show equal arms to be
      equivalent
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
    """The verdict on a question on a test set. Rates and their differences are fractions, not percent.

    - primary: on the declared set, whose verdicts are the answer; the other sets describe
    - seeds: the number of results by arm; failed, diverged: the number that failed (by `rule`), and that diverged
    - rate, baseline_rate, difference: over the utterances that all runs have; of trimmed means if the estimate is
      trimmed
    - estimate: on the scale that decides, None if its noise is unknown; other: on the other scale; reason: why nothing
      can be decided
    - margin: the difference that would not matter, on the scale that decides; None if undeclared
    - relative: the difference of logarithms with its interval at the level of the verdict; None if a rate is 0
    - superiority: the share of pairs of runs in which the arm's run is better
    - alone: each arm is one system, and the verdict is about these systems only
    - procedure: of the test; p, p_adjusted: before and after Holm's correction over the `family` contrasts of the set
    - level: the two-sided α of Holm's decision; low, high: the interval in points at this level. The interval on the
      scale that decides excludes 0 exactly if a difference is shown.
    - detectable: the true difference detected with a power of 80 %, with its 90 % interval; levers: the seeds, or the
      speakers, that would detect other true differences
    - repeated: the chance that as many fresh runs on the same test speakers give the same verdict; None if the noise of
      seeds is unknown, and at a planned look
    - p_pairs, p_pairs_holm: matched pairs (MAPSSWE) of these models, before and after Holm's correction; nan without
      utterances
    - look: in a sweep with a plan, the look that decided, or the latest one
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
        """The ends in points, as fractions; None if they are not finite."""
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
        """The interval, on the scale that decides, that must lie within the margin for equivalence."""
        if self.estimate is None:
            return None
        if self.look is not None:
            return Range(self.estimate.value, self.look.low, self.look.high)
        half = self.procedure.half_width(self.estimate, equal_level(self.procedure.alpha, self.family))
        return Range(self.estimate.value, self.estimate.value - half, self.estimate.value + half)

    @property
    def shown_margin(self) -> float | None:
        """The difference that would not matter, as a fraction; None if undeclared."""
        return None if self.margin is None else self.scale.fraction(self.margin)

    @property
    def grade(self) -> Grade | None:
        """The size of a shown difference against the margin; None if no difference is shown or no margin declared."""
        if self.outcome not in SHOWN or self.margin is None or (decided := self.decided) is None:
            return None
        if abs(decided.value) < self.margin:
            return "less than the margin"
        return "beyond the margin" if min(abs(decided.low), abs(decided.high)) >= self.margin else "size unclear"

    @property
    def again(self) -> str | None:
        """How often the verdict comes again if the question is asked once more; None if unknown.

        It is simulated for a plan, and predicted from the noise for other sweeps.
        """
        if self.look is None:
            return None if self.repeated is None else f"{100 * self.repeated:.0f} %"
        return None if self.immaterial else AGAIN.get(self.grade or self.outcome)

    @property
    def immaterial(self) -> bool:
        """Return whether a shown difference has its whole interval within the margin: different, and equivalent."""
        decided = self.decided
        if self.outcome not in SHOWN or self.margin is None or decided is None:
            return False
        return -self.margin < decided.low and decided.high < self.margin
