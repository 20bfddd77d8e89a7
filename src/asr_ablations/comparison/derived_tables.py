"""Tables derived from a comparison: sources of noise, gradients, loss against WER, and the runs of a search."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from asr_ablations.comparison.rank_correlation import Correlation, spearman
from asr_ablations.comparison.time_to_accuracy import validation_values
from asr_ablations.runs.reader import read_gradient_norms
from asr_ablations.runs.sweep_history import logarithmic
from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.identical_arms import count_once
from asr_verdicts.metrics import LOSS, WER, Metric, different_losses, validation_set
from asr_verdicts.one_arm import final_values
from asr_verdicts.record import Record
from asr_verdicts.statistics.intervals import Range


@dataclass(frozen=True)
class NoiseSource:
    """The noise of an arm in which one source of chance varies (Bouthillier et al. 2021). deviation: a fraction.
    share: of the variance of the baseline, in which all sources vary, with a 95 % interval; None for the baseline.
    """

    arm: str
    n: int
    deviation: float
    share: Range | None


def noise_sources(comparison: Comparison) -> list[NoiseSource]:
    """Return a row per arm if the arms of a sweep only differ in seeds; empty for other sweeps."""
    arms, baseline, set_ = comparison.arms, comparison.baseline, comparison.set
    words = [word for text in comparison.design.layout.changes.values() for word in text.split() if "=" in word]
    if not words or not all(word.startswith("seeds.") for word in words):
        return []
    counted, _ = count_once([*(arm.name for arm in arms if arm.name != baseline), baseline], arms)
    values = {arm.name: final_values(arm, set_, WER) for arm in counted}
    whole = values.get(baseline, [])
    if len(whole) < 2:
        return []
    variances = {name: float(np.var(rates, ddof=1)) for name, rates in values.items() if len(rates) > 1}

    def share(name: str) -> Range | None:
        if name == baseline or not variances[baseline]:
            return None
        ratio = variances[name] / variances[baseline]
        return Range(ratio, *variance_ratio_interval(ratio, len(values[name]) - 1, len(whole) - 1))

    return [
        NoiseSource(name, len(values[name]), math.sqrt(variance), share(name)) for name, variance in variances.items()
    ]


@dataclass(frozen=True)
class Gradients:
    """The norm of the whole gradient before clipping, over the steps of one run (counted from 1).

    median, high: of finite norms, high is the 95th percentile. largest: the largest finite norm, at step largest_at.
    not_finite: number of steps without finite norm. diverged_at: the step whose loss was not finite.
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


def observed(arm: Arm) -> list[Record]:
    """Return the runs whose gradients are shown: the first seed of an arm, and every diverged run."""
    return [*arm.runs[:1], *arm.diverged]


def gradients(arms: Sequence[Arm]) -> list[Gradients]:
    """Return a row for each observed run that recorded gradient norms."""
    rows = [_measure_gradients(arm.name, run) for arm in arms for run in observed(arm)]
    return [row for row in rows if row is not None]


def _measure_gradients(name: str, run: Record) -> Gradients | None:
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
    """A run's validation loss in nats and WER as a fraction."""

    arm: str
    loss: float
    wer: float


@dataclass(frozen=True)
class LossAgainstWer:
    """Loss and WER of all runs. correlation: None with fewer than four runs, or without variation."""

    name: str
    points: list[Point]
    correlation: Correlation | None


def loss_against_wer(arms: Sequence[Arm], test_sets: Sequence[str]) -> list[LossAgainstWer]:
    """Relate losses to WERs over all runs: of the last weights, on the first validation set and each test set, and the
    lowest ones in validation. Empty if runs minimise different losses, or recorded none.
    """
    runs = [(arm, run) for arm in arms for run in arm.runs]
    if len(different_losses([run for _, run in runs])) > 1:
        return []

    def correlate(name: str, values: Callable[[Record], tuple[float | None, float | None]]) -> LossAgainstWer:
        measured = [(arm.name, *values(run)) for arm, run in runs]
        points = [
            Point(arm, loss, wer)
            for arm, loss, wer in measured
            if loss is not None and wer is not None and math.isfinite(loss)
        ]
        correlation = spearman([point.loss for point in points], [point.wer for point in points])
        return LossAgainstWer(name, points, correlation)

    def read_last(name: str) -> Callable[[Record], tuple[float | None, float | None]]:
        return lambda run: (run.value(validation_set(run) or "", LOSS.name), run.value(name, WER.name))

    validated = {validation_set(run) for _, run in runs}
    last = [correlate(f"last weights, WER on {name}", read_last(name)) for name in test_sets if name not in validated]
    best = correlate(
        "lowest of all validations", lambda run: (lowest_validation(run, LOSS), lowest_validation(run, WER))
    )
    return [measured for measured in (*last, best) if measured.points]


def lowest_validation(run: Record, metric: Metric) -> float | None:
    """Return the lowest value at any validation; None without any."""
    return min(validation_values(run, metric), default=None)


@dataclass(frozen=True)
class Hyperparameter:
    """A hyperparameter of a search. values: one per run, as numbers if possible. rates: the runs' best validation WER.
    best: index of the lowest rate. logarithmic: whether the search sampled it on a logarithmic scale.
    """

    key: str
    values: list[float] | list[str]
    rates: list[float]
    best: int
    logarithmic: bool


def hyperparameters(comparison: Comparison) -> list[Hyperparameter]:
    """Return the factor's keys that vary between the runs proposed by a search; empty with fewer than two runs.

    Diverged runs are left out.
    """
    tried = [
        (arm, run)
        for arm in comparison.arms
        for run in arm.runs
        if run.searched and run.summary.best_validation_wer is not None
    ]
    if len(tried) < 2:
        return []
    rates = [float(rate) for _, run in tried if (rate := run.summary.best_validation_wer) is not None]
    drawn = frozenset().union(*(logarithmic(run.folder.parent) for _, run in tried))
    return [
        Hyperparameter(key, _parse_numbers(texts), rates, rates.index(min(rates)), key in drawn)
        for key in comparison.design.layout.factor
        if len(set(texts := [arm.levels.get(key, "") for arm, _ in tried])) > 1
    ]


def ranked(arms: Sequence[Arm]) -> list[tuple[Arm, Record]]:
    """Return the runs proposed by a search with their arms, sorted by the minimised metric; diverged runs are last."""
    tried = [(arm, run) for arm in arms for run in arm.results if run.searched]
    rates = [math.inf if (rate := run.summary.best_validation_wer) is None else rate for _, run in tried]
    return [tried[place] for place in np.argsort(rates, kind="stable")]


def _parse_numbers(texts: list[str]) -> list[float] | list[str]:
    try:
        return [float(text) for text in texts]
    except ValueError:
        return texts


def variance_ratio_interval(
    ratio: float, degrees: float, degrees_below: float, level: float = 0.95
) -> tuple[float, float]:
    """Return the interval (Fisher's F) of the ratio of two normal variables' variances. ratio: the measured ratio."""
    tail = (1 - level) / 2
    low, high = (ratio / float(special.fdtri(degrees, degrees_below, mass)) for mass in (1 - tail, tail))
    return low, high
