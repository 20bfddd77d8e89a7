"""The result of a comparison: made by comparison.comparison, shown by report."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TypedDict

from asr_ablations.comparison.arm_differences import ArmDifference
from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.contrast import Contrast, Verdict
from asr_ablations.comparison.derived_tables import (
    ArmRate,
    Description,
    Gradients,
    Hyperparameter,
    LossAgainstWer,
    NoiseSource,
    descriptions,
    gradients,
    hyperparameters,
    lone_rates,
    loss_against_wer,
    noise_sources,
)
from asr_ablations.comparison.evidence import UNDECLARED, Evidence
from asr_ablations.comparison.metrics import find_metric
from asr_ablations.comparison.sequential_result import Course
from asr_ablations.comparison.table_columns import TableRow
from asr_ablations.comparison.training_times import EpochTimes, Scaling, epoch_times, scaling
from asr_ablations.comparison.word_frequencies import WordFrequencies, word_frequencies
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.records import Unfinished
from asr_ablations.runs.verdict_plan import VerdictPlan
from asr_ablations.statistics.time_to_accuracy import Axis


@dataclass(frozen=True)
class TimeToAccuracy:
    """The cost of a run until `metric` on the validation set reached `target`; None: it never did.

    chosen: the target was not named beforehand, but chosen from these runs' own curves. seconds and hours of
    audio of training; cost: in the currency of hardware.price_per_hour, None without a price.
    """

    arm: str
    seed: int
    metric: str
    target: float
    seconds: float | None
    steps: float | None
    audio_hours: float | None
    epochs: float | None
    cost: float | None = None
    chosen: bool = False


class EqualCost(TypedDict):
    """The metric of an arm at validation when each run had spent `budget` on an axis: mean, deviation over n seeds."""

    arm: str
    axis: Axis
    budget: float
    mean: float
    deviation: float | None
    n: int


@dataclass(frozen=True)
class Comparison:
    """Everything that a report shows.

    rows: the table, by arm and test set; validated: the same for validation sets, which have no verdicts. metric, set:
    of the verdicts that are the answer; verdicts on other sets describe. evidence: which test decides, and why.
    differing: the keys of the configs that are not the same in all runs, with their values as text; allowed: those that
    --allow accepted; changes: of a sweep that lists its arms, what each changes. unfinished: the runs without a result.
    plan, course: of a sweep that adds seeds until it knows, and what its looks found. differences: the keys in
    which arms differ from the baseline. scored: as in Records. The derived tables (epochs, scaling, one_arm, …) are
    computed once, when one is first asked for.
    """

    title: str
    question: str | None
    source: str | None
    factor: list[str]
    baseline: str
    arms: list[Arm]
    sets: list[str]
    rows: list[TableRow]
    verdicts: list[Verdict]
    times_to_accuracy: list[TimeToAccuracy]
    validated: list[TableRow] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)
    differing: dict[str, list[str]] = field(default_factory=dict)
    metric: str = "wer"
    set: str = ""
    evidence: Evidence = UNDECLARED
    equal_cost: list[EqualCost] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    changes: dict[str, str] = field(default_factory=dict)
    plan: VerdictPlan | None = None
    course: Course | None = None
    differences: list[ArmDifference] = field(default_factory=list)
    scored: str = ""

    @property
    def answer(self) -> list[Verdict]:
        """The verdicts on the primary set."""
        return [verdict for verdict in self.verdicts if verdict.contrast.primary]

    @property
    def contrasts(self) -> list[Contrast]:
        return [verdict.contrast for verdict in self.verdicts]

    @property
    def runs(self) -> list[RunRecord]:
        return [run for arm in self.arms for run in arm.runs]

    @cached_property
    def epochs(self) -> list[EpochTimes]:
        return epoch_times(self.arms, self.baseline)

    @cached_property
    def scaling(self) -> list[Scaling]:
        return scaling(self.arms)

    @cached_property
    def one_arm(self) -> list[Description]:
        return descriptions(self.arms)

    @cached_property
    def lone_rates(self) -> list[ArmRate]:
        return lone_rates(self.arms, self.sets, find_metric(self.metric))

    @cached_property
    def noise_sources(self) -> list[NoiseSource]:
        return noise_sources(self.arms, self.baseline, self.changes, self.set)

    @cached_property
    def loss_against_wer(self) -> list[LossAgainstWer]:
        return loss_against_wer(self.arms, self.sets)

    @cached_property
    def gradients(self) -> list[Gradients]:
        return gradients(self.arms)

    @cached_property
    def word_frequencies(self) -> list[WordFrequencies]:
        return word_frequencies(self.arms, self.sets)

    @cached_property
    def hyperparameters(self) -> list[Hyperparameter]:
        return hyperparameters(self.arms, self.factor)
