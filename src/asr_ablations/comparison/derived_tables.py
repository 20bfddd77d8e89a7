"""Tables derived from a comparison: one arm over seeds, gradients, loss against WER, and the runs of a search."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.contrast import ALPHA
from asr_ablations.comparison.identical_arms import count_once
from asr_ablations.comparison.metrics import (
    LOSS,
    METRICS,
    WER,
    Metric,
    different_losses,
    measured_sets,
    validation_set,
    validation_values,
)
from asr_ablations.comparison.samples import measure_set
from asr_ablations.comparison.verdict import speakers_text
from asr_ablations.runs.reader import read_gradient_norms
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.sweep_history import logarithmic
from asr_ablations.statistics.distributions import variance_ratio_interval
from asr_ablations.statistics.estimate import contrast_estimate, paired_estimate
from asr_ablations.statistics.intervals import Range
from asr_ablations.statistics.power import FixedLength
from asr_ablations.statistics.sample import Correlation, Sample, Spread, describe, spearman


@dataclass(frozen=True)
class Description:
    """A metric of the last weights on a set, over the runs of an arm; rates as fractions, losses in nats."""

    arm: str
    set: str
    metric: Metric
    spread: Spread


def one_arm(arms: Sequence[Arm]) -> bool:
    """True if there is one arm with several seeds: a question about chance, not about a factor."""
    return len(arms) == 1 and len(arms[0].runs) > 1


def descriptions(arms: Sequence[Arm]) -> list[Description]:
    """Every metric on every set, the first validation set before the test sets; empty unless there is one arm."""
    if not one_arm(arms):
        return []
    return [
        Description(arms[0].name, name, metric, describe(Sample.of_rates(np.array(values))))
        for metric in METRICS.values()
        for name in measured_sets(LOSS, arms[0].runs)
        if len(values := final_values(arms[0], name, metric)) > 1
    ]


@dataclass(frozen=True)
class ArmRate:
    """The error rate of an arm on a test set, a fraction, with its 95 % interval over seeds and speakers."""

    arm: str
    set: str
    metric: Metric
    rate: Range
    sentence: str


def lone_rates(arms: Sequence[Arm], sets: Sequence[str], metric: Metric) -> list[ArmRate]:
    """The rate of a comparison's only arm on each set; empty where there are more arms, or no utterances.

    The interval is Student's t: over seeds and speakers, and of one system over speakers alone.
    """
    if len(arms) != 1 or not metric.is_rate:
        return []
    (arm,), found = arms, []
    for name in sets:
        sample = measure_set(arms, arm, name, metric.name).samples.get(arm.name)
        if sample is None or sample.errors is None:
            continue
        several = len(sample.rates) > 1
        estimate = contrast_estimate([(1.0, sample)]) if several else paired_estimate([(1.0, sample)])
        if estimate is None or not math.isfinite(half := FixedLength().half_width(estimate, ALPHA)):
            continue
        rate = Range(estimate.value, estimate.value - half, estimate.value + half)
        ends = f"{metric.text(rate.low)} to {metric.text(rate.high)} at 95 %"
        models = f"{len(sample.rates)} seeds" if several else "one system, of which alone it speaks"
        sentence = (
            f"{arm.name}: {metric.text(rate.value)} % {metric.label} on {name} "
            f"({ends}; {models}, {speakers_text(estimate)})"
        )
        found.append(ArmRate(arm.name, name, metric, rate, sentence))
    return found


def final_values(arm: Arm, name: str, metric: Metric) -> list[float]:
    """The metric of every run that recorded it, in the order of seeds."""
    return [value for run in arm.runs if (value := run.value(name, metric.name)) is not None]


@dataclass(frozen=True)
class NoiseSource:
    """The deviation of an arm in which one source of chance varies, as a fraction, and its share of the variance of the
    baseline, in which all do, with a 95 % interval (Bouthillier et al. 2021). None for the baseline itself.
    """

    arm: str
    n: int
    deviation: float
    share: Range | None


def noise_sources(arms: Sequence[Arm], baseline: str, changes: Mapping[str, str], set_: str) -> list[NoiseSource]:
    """A row for each arm of a sweep whose arms differ in seeds alone; empty for any other sweep. changes: of each arm,
    as text.
    """
    words = [word for text in changes.values() for word in text.split() if "=" in word]
    if not words or not all(word.startswith("seeds.") for word in words):
        return []
    counted, _ = count_once([*(arm.name for arm in arms if arm.name != baseline), baseline], arms)
    values = {arm.name: final_values(arm, set_, WER) for arm in counted}
    whole = values.get(baseline, [])
    if len(whole) < 2:
        return []
    variances = {name: float(np.var(of, ddof=1)) for name, of in values.items() if len(of) > 1}
    rows = []
    for name, variance in variances.items():
        share = None
        if name != baseline and variances[baseline]:
            ratio, n = variance / variances[baseline], len(values[name])
            share = Range(ratio, *variance_ratio_interval(ratio, n - 1, len(whole) - 1))
        rows.append(NoiseSource(name, len(values[name]), math.sqrt(variance), share))
    return rows


@dataclass(frozen=True)
class Gradients:
    """The norm of the whole gradient before clipping, at every step of one run.

    median, high: of the finite ones, high for the 95th percentile; largest: the largest of them, at step largest_at;
    not_finite: steps without a finite norm; diverged_at: the step whose loss was no number. Steps count from 1.
    """

    arm: str
    seed: int
    steps: int
    median: float
    high: float
    largest: float
    largest_at: int
    not_finite: int
    diverged_at: int | None


def observed(arm: Arm) -> list[RunRecord]:
    """The runs whose gradients are shown: the first seed of an arm, and every run that diverged."""
    return [*arm.runs[:1], *arm.diverged]


def gradients(arms: Sequence[Arm]) -> list[Gradients]:
    """A row for each observed run that recorded its norms."""
    rows = [_row(arm.name, run) for arm in arms for run in observed(arm)]
    return [row for row in rows if row is not None]


def _row(name: str, run: RunRecord) -> Gradients | None:
    norms = np.array(read_gradient_norms(run.folder))
    finite = np.isfinite(norms)
    if not finite.any():
        return None
    at = int(np.argmax(np.where(finite, norms, -np.inf)))
    median, high = np.percentile(norms[finite], [50, 95])
    lost = int((~finite).sum())
    return Gradients(
        name, run.seed, len(norms), float(median), float(high), float(norms[at]), at + 1, lost, run.diverged_at
    )


@dataclass(frozen=True)
class Point:
    """A run: a validation loss in nats, and a WER as a fraction."""

    arm: str
    loss: float
    wer: float


@dataclass(frozen=True)
class LossAgainstWer:
    """Two measures of all runs, one against the other. correlation: None with fewer than four runs or no spread."""

    name: str
    points: list[Point]
    correlation: Correlation | None


def loss_against_wer(arms: Sequence[Arm], test_sets: Sequence[str]) -> list[LossAgainstWer]:
    """The loss of the last weights on the first validation set against their WER on every test set, and the lowest loss
    of a validation against the lowest WER of one. Empty where runs minimise different losses, or recorded none.
    """
    runs = [(arm, run) for arm in arms for run in arm.runs]
    if len(different_losses([run for _, run in runs])) > 1:
        return []
    sets = [name for name in test_sets if name not in {validation_set(run) for _, run in runs}]
    last = [
        (
            f"last weights, WER on {name}",
            [_point(arm, _last_loss(run), run.value(name, WER.name)) for arm, run in runs],
        )
        for name in sets
    ]
    best = [_point(arm, _lowest(run, LOSS), _lowest(run, WER)) for arm, run in runs]
    measured = [*last, ("lowest of all validations", best)]
    return [_correlated(name, [point for point in points if point]) for name, points in measured if any(points)]


def _last_loss(run: RunRecord) -> float | None:
    name = validation_set(run)
    return None if name is None else run.value(name, LOSS.name)


def _lowest(run: RunRecord, metric: Metric) -> float | None:
    return min(validation_values(run, metric), default=None)


def _point(arm: Arm, loss: float | None, wer: float | None) -> Point | None:
    return None if loss is None or wer is None or not math.isfinite(loss) else Point(arm.name, loss, wer)


def _correlated(name: str, points: list[Point]) -> LossAgainstWer:
    return LossAgainstWer(name, points, spearman([point.loss for point in points], [point.wer for point in points]))


OBJECTIVE = "best_validation_wer"
"""The figure of a run's summary that a search minimises."""


@dataclass(frozen=True)
class Hyperparameter:
    """values: of each run, numbers where all of them are, else as text; rates: the best validation WERs of the runs;
    best: the place of the lowest in both. logarithmic: whether the search drew it so.
    """

    key: str
    values: list[float] | list[str]
    rates: list[float]
    best: int
    logarithmic: bool


def hyperparameters(arms: Sequence[Arm], factor: Sequence[str]) -> list[Hyperparameter]:
    """The keys of the factor in which the runs that a search proposed differ; empty where there are not two runs.

    A run that diverged has no rate and is left out.
    """
    tried = [
        (arm, run) for arm in arms for run in arm.runs if run.searched and run.summary.best_validation_wer is not None
    ]
    if len(tried) < 2:
        return []
    rates = [float(rate) for _, run in tried if (rate := run.summary.best_validation_wer) is not None]
    drawn = frozenset().union(*(logarithmic(run.folder.parent) for _, run in tried))
    return [
        Hyperparameter(key, _numbers(texts), rates, rates.index(min(rates)), key in drawn)
        for key in factor
        if len(set(texts := [arm.levels.get(key, "") for arm, _ in tried])) > 1
    ]


def is_search(arms: Sequence[Arm]) -> bool:
    """True if a search proposed all runs, several of them: no run was started to confirm one."""
    results = [run for arm in arms for run in arm.results]
    return len(results) > 1 and all(run.searched for run in results)


def ranked(arms: Sequence[Arm]) -> list[tuple[Arm, RunRecord]]:
    """The runs that a search proposed with their arms, in the order of what it minimises; those that diverged last."""
    tried = [(arm, run) for arm in arms for run in arm.results if run.searched]
    return sorted(tried, key=lambda one: _objective(one[1]))


def _objective(run: RunRecord) -> float:
    best = run.summary.best_validation_wer
    return math.inf if best is None else best


def _numbers(texts: list[str]) -> list[float] | list[str]:
    try:
        return [float(text) for text in texts]
    except ValueError:
        return texts
