"""The result of a comparison: made by comparison.comparison, shown by report."""

from dataclasses import dataclass, field
from typing import Literal, TypedDict

from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.records import Unfinished
from asr_ablations.statistics.interval import Interval
from asr_ablations.statistics.time_to_accuracy import Axis

ALPHA = 0.05
"""The rate of false alarms that verdicts are held to, over all arms and sets of a comparison."""

Outcome = Literal["better", "worse", "no difference shown", "undecided"]
"""What a verdict says of the arm; undecided: a single seed decides nothing."""


@dataclass(frozen=True)
class Arm:
    """A choice of the factor, run with one or more seeds."""

    name: str
    runs: list[RunRecord]


@dataclass(frozen=True)
class Contrast:
    """An arm against the baseline on a test set. Rates and differences of rates are fractions, not percent.

    seeds: of the arm and of the baseline. difference: the arm's rate less the baseline's. speakers: its 95 % interval
    by bootstrap over speakers, None where a record has no utterances; interval: the verdict's own, over seeds and
    speakers together.

    The verdict rests on p, over seeds and speakers together, and on p_holm, which is p after Holm's correction over all
    `family` contrasts of the comparison. p_pooled: what p_holm would be if all arms were equally noisy, a sensitivity
    analysis. p_seeds: Welch's test over seeds alone. detectable: the smallest true difference that these seeds would
    show in four cases of five. All of these and `interval` are None with fewer than two seeds per arm.

    p_pairs: matched pairs (MAPSSWE), and p_pairs_holm: after Holm's correction over the arms of the set; nan where a
    record has no utterances.
    """

    arm: str
    baseline: str
    set: str
    metric: str
    arm_mean: float
    baseline_mean: float
    seeds: tuple[int, int]
    difference: float
    speakers: Interval | None
    interval: Interval | None
    p_pairs: float
    p_pairs_holm: float
    p_seeds: float | None = None
    p: float | None = None
    p_holm: float | None = None
    p_pooled: float | None = None
    detectable: float | None = None
    family: int = 1


@dataclass(frozen=True)
class Verdict:
    """What a contrast shows: in a word or two, and in a sentence."""

    contrast: Contrast
    outcome: Outcome
    sentence: str


@dataclass(frozen=True)
class TimeToAccuracy:
    """What a run had spent when `metric` on the validation set reached `target`; None: it never did.

    chosen: nobody named the target beforehand, it was chosen from these runs' own curves. seconds and hours of
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


class TableRow(TypedDict):
    """Means over the seeds of an arm on a test set, with standard deviations (_sd); None for what no run recorded.

    n: the number of seeds. Rates are fractions, losses nats; the counts of errors and words are per run.
    """

    arm: str
    set: str
    n: int
    wer: float | None
    wer_sd: float | None
    cer: float | None
    cer_sd: float | None
    loss: float | None
    loss_sd: float | None
    substitutions: float | None
    deletions: float | None
    insertions: float | None
    words: float | None
    utterances: float | None
    parameters: float | None
    epochs: float | None
    steps: float | None
    audio_hours: float | None
    train_seconds: float | None
    train_seconds_sd: float | None
    best_validation_wer: float | None
    best_validation_wer_sd: float | None
    last_validation_wer: float | None
    last_validation_wer_sd: float | None
    best_validation_loss: float | None
    best_validation_loss_sd: float | None
    last_validation_loss: float | None
    last_validation_loss_sd: float | None


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

    rows: the table, by arm and test set. metric: of the verdicts and of the time to accuracy. differing: the keys of
    the configs that are not the same in all runs, with their values as text; allowed: those that --allow accepted.
    unfinished: the runs without a result.
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
    literature: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)
    differing: dict[str, list[str]] = field(default_factory=dict)
    metric: str = "wer"
    equal_cost: list[EqualCost] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    @property
    def contrasts(self) -> list[Contrast]:
        return [verdict.contrast for verdict in self.verdicts]

    @property
    def runs(self) -> list[RunRecord]:
        return [run for arm in self.arms for run in arm.runs]
