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
"""The outcomes of a question.

- typical runs equivalent: trimmed means are equivalent, but failure rates may differ between the arms
- not learned: neither arm has learned to transcribe
- undecided: the evidence cannot decide the question, and the verdict's sentence gives the reason
- open: the plan will add runs
"""

SHOWN: tuple[Outcome, ...] = ("better", "worse", "interaction shown")  # outcomes that claim a difference
EQUIVALENT: tuple[Outcome, ...] = ("equivalent", "typical runs equivalent")  # outcomes that claim equivalence

Grade = Literal["beyond the margin", "size unclear", "less than the margin"]
"""The size of a shown difference.

- beyond the margin: the whole interval is beyond the margin
- size unclear: the measured difference is beyond the margin, but part of the interval is not
- less than the margin: the measured difference is within the margin
"""
AGAIN = {
    "beyond the margin": "100 %",
    "size unclear": "88 to 93 %",
    "less than the margin": "53 to 67 %",
    "equivalent": "60 to 76 %",
}
"""How often a plan would give the same verdict if it were repeated with new seeds, by grade or outcome.

The numbers were simulated. A range covers different distributions of true effects (docs/statistics.md, How large).
"""


Kind = Literal["arm", "main effect", "simple effect", "interaction"]


@dataclass(frozen=True)
class Question:
    """A question about a contrast, which is a weighted sum of the arms' mean rates.

    - arm, baseline: names of the two sides
    - weights: weight of each arm, by name
    - within: scope of an effect of crossed factors, such as "at norm=none" or "averaged over norm"; empty if an
      arm is compared with the baseline
    """

    kind: Kind
    arm: str
    baseline: str
    weights: dict[str, float]
    within: str = ""

    @property
    def name(self) -> str:
        """The name of the question in tables."""
        return f"{self.arm}{f' ({self.within})' if self.within else ''}"


@dataclass(frozen=True)
class AtLook:
    """The planned look (interim analysis) at which a verdict was reached.

    - number: number of the look, from 1
    - of: number of planned looks
    - runs: runs per arm at this look
    - most: runs per arm at the last look
    - margin: largest difference that would not matter
    - low, high: interval that must lie within the margin for equivalence
    - chance: chance of a verdict by the last look; None if not computed
    - levers: number of seeds or speakers needed to show that equal arms are equivalent

    `margin`, `low` and `high` are fractions on the scale of points, or log ratios on the relative scale.
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
    """The verdict on a question for one test set. Rates and their differences are fractions, not percent.

    - primary: whether the set is the primary test set. Verdicts on other sets are only descriptive.
    - seeds: number of runs with a result, by arm
    - failed, diverged: number of runs that failed (according to `rule`) and number that diverged, by arm
    - rate, baseline_rate, difference: mean rates on the utterances that all runs have, and their difference; trimmed
      means if the estimate is trimmed
    - estimate: estimate on the declared scale, used for the decision; None if its noise is unknown
    - other: estimate on the scale that was not declared: points or relative
    - reason: the reason why the question cannot be decided; "" if it can
    - margin: largest difference that would not matter, on the declared scale; None if there is no margin
    - relative: difference of log rates, with its interval at `level`; None if a rate is 0
    - superiority: share of pairs of runs in which the arm beats the baseline; None for effects of crossed factors
    - alone: whether each arm is a single trained system, so that the verdict is about these systems only
    - procedure: the statistical test
    - p, p_adjusted: p-value before and after Holm's correction for the `family` comparisons on the set
    - level: two-sided level after Holm's correction
    - low, high: interval in points at `level`. A difference is shown if the interval on the declared scale excludes 0.
    - detectable: true difference that would be detected with a power of 80 %, with its 90 % interval
    - levers: number of seeds or speakers needed to detect a given true difference, by difference
    - repeated: chance that as many new runs on the same test speakers would give the same verdict; None if the
      variation between seeds is unknown, and for planned looks
    - p_pairs, p_pairs_holm: p-value of the matched-pairs test (MAPSSWE) between the tested models, before and after
      Holm's correction; NaN if there are no utterances
    - look: planned look at which the question was decided, or the latest look; None if there is no plan
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
        """The scale used for the decision: points or relative."""
        return POINTS if self.estimate is None else self.estimate.scale

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the interval on the scale of points, as fractions; None if it is missing or infinite."""
        if self.low is None or self.high is None or not math.isfinite(self.high - self.low):
            return None
        return self.low, self.high

    @property
    def decided(self) -> Range | None:
        """The difference on the declared scale, with its interval; None if there is no interval."""
        if self.scale is RELATIVE:
            return self.relative
        return None if self.low is None or self.high is None else Range(self.difference, self.low, self.high)

    @property
    def equal_interval(self) -> Range | None:
        """The interval, on the declared scale, that must lie within the margin for equivalence; None if unknown."""
        if self.estimate is None:
            return None
        if self.look is not None:
            return Range(self.estimate.value, self.look.low, self.look.high)
        half = self.procedure.half_width(self.estimate, equal_level(self.procedure.alpha, self.family))
        return Range(self.estimate.value, self.estimate.value - half, self.estimate.value + half)

    @property
    def shown_margin(self) -> float | None:
        """The margin as a fraction; None if there is no margin."""
        return None if self.margin is None else self.scale.fraction(self.margin)

    @property
    def grade(self) -> Grade | None:
        """The size of a shown difference relative to the margin; None if no difference is shown or no margin is set."""
        if self.outcome not in SHOWN or self.margin is None or (decided := self.decided) is None:
            return None
        if abs(decided.value) < self.margin:
            return "less than the margin"
        return "beyond the margin" if min(abs(decided.low), abs(decided.high)) >= self.margin else "size unclear"

    @property
    def again(self) -> str | None:
        """How often a repetition with new seeds would give the same verdict, in percent; None if unknown.

        For a plan, the number was simulated. For other sweeps, it is predicted from the noise of the estimate.
        """
        if self.look is None:
            return None if self.repeated is None else f"{100 * self.repeated:.0f} %"
        return None if self.immaterial else AGAIN.get(self.grade or self.outcome)

    @property
    def immaterial(self) -> bool:
        """Return whether a difference is shown, but its whole interval lies within the margin."""
        decided = self.decided
        if self.outcome not in SHOWN or self.margin is None or decided is None:
            return False
        return -self.margin < decided.low and decided.high < self.margin
