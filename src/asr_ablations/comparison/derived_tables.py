"""Compute additional tables: sources of noise, gradient norms, loss against WER, searches, and word frequencies."""

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from asr_ablations.comparison.time_to_accuracy import validation_values
from asr_ablations.runs.reader import read_gradient_norms
from asr_ablations.runs.sweep_history import logarithmic
from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.identical_arms import count_once
from asr_verdicts.metrics import LOSS, WER, Metric, different_losses, validation_set
from asr_verdicts.one_arm import final_values
from asr_verdicts.record import Record
from asr_verdicts.statistics.distributions import normal_bound
from asr_verdicts.statistics.intervals import Range
from asr_verdicts.statistics.mapsswe import error_places


@dataclass(frozen=True)
class NoiseSource:
    """The noise of an arm in which a single source of randomness varies (Bouthillier et al. 2021).

    - deviation: standard deviation of the WER (a fraction) over n runs
    - share: variance relative to the baseline, in which all sources of randomness vary, with a 95 % interval
    """

    arm: str
    n: int
    deviation: float
    share: Range | None


def noise_sources(comparison: Comparison) -> list[NoiseSource]:
    """Return a row for each arm if the arms differ only in random seeds; empty if they differ in anything else."""
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
        ratio, degrees = variances[name] / variances[baseline], (len(values[name]) - 1, len(whole) - 1)
        low, high = (ratio / float(special.fdtri(*degrees, mass)) for mass in (0.975, 0.025))  # quantiles of F
        return Range(ratio, low, high)

    return [
        NoiseSource(name, len(values[name]), math.sqrt(variance), share(name)) for name, variance in variances.items()
    ]


@dataclass(frozen=True)
class Gradients:
    """Statistics of the norm of the whole gradient before clipping, over all steps of a run, counted from 1.

    - median, high, largest: median, 95th percentile and maximum of the finite norms; largest_at: step of the maximum
    - not_finite: number of steps whose norm is not finite; diverged_at: step whose loss was not finite, or None
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
    """Return the runs of an arm whose gradients are reported: the run of the first seed, and all diverged runs."""
    return [*arm.runs[:1], *arm.diverged]


def gradients(arms: Sequence[Arm]) -> list[Gradients]:
    """Return a row for each run that `observed` selects, if it recorded gradient norms."""
    rows = [_measure_gradients(arm.name, run) for arm in arms for run in observed(arm)]
    return [row for row in rows if row is not None]


def _measure_gradients(name: str, run: Record) -> Gradients | None:
    norms = np.array(read_gradient_norms(run.folder))
    finite = np.isfinite(norms)
    if not finite.any():
        return None
    at = int(np.argmax(np.where(finite, norms, -np.inf)))
    median, high = np.percentile(norms[finite], [50, 95])
    statistics = float(median), float(high), float(norms[at])
    return Gradients(name, run.seed, len(norms), *statistics, at + 1, int((~finite).sum()), run.diverged_at)


@dataclass(frozen=True)
class Correlation:
    """A correlation coefficient from −1 to 1, with a 95 % interval. n: number of pairs."""

    value: float
    low: float
    high: float
    n: int


def spearman(x: Sequence[float], y: Sequence[float]) -> Correlation | None:
    """Return Spearman's rank correlation; None if there are fewer than four pairs, or if x or y is constant.

    The interval uses Fisher's transformation, with variance 1.06 / (n − 3) for ranks (Fieller, Hartley & Pearson 1957).
    """
    n = len(x)
    if n < 4 or min(np.ptp(x), np.ptp(y)) == 0:
        return None
    value = float(np.clip(np.corrcoef(_rank(x), _rank(y))[0, 1], -1, 1))
    if abs(value) > 1 - 1e-12:
        return Correlation(value, value, value, n)
    half = normal_bound(0.025) * math.sqrt(1.06 / (n - 3))
    return Correlation(value, math.tanh(math.atanh(value) - half), math.tanh(math.atanh(value) + half), n)


def _rank(values: Sequence[float]) -> np.ndarray:
    """Return the ranks of values, starting at 1. Equal values get the mean of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places])


@dataclass(frozen=True)
class Point:
    """The validation loss (in nats) and the WER (as a fraction) of a run."""

    arm: str
    loss: float
    wer: float


@dataclass(frozen=True)
class LossAgainstWer:
    """Validation loss and WER of all runs. correlation: their rank correlation; None if it is undefined."""

    name: str
    points: list[Point]
    correlation: Correlation | None


def loss_against_wer(arms: Sequence[Arm], test_sets: Sequence[str]) -> list[LossAgainstWer]:
    """Correlate validation losses with WERs over all runs: one row for each test set, and one for the lowest values.

    For a test set, both values belong to the last weights; the loss is from the first validation set. The last row
    uses the lowest loss and the lowest WER of all validations. Empty if the arms minimise different losses.
    """
    names, runs = [arm.name for arm in arms for _ in arm.runs], [run for arm in arms for run in arm.runs]
    if len(different_losses(runs)) > 1:
        return []

    def correlate(title: str, losses: list[float | None], rates: list[float | None]) -> LossAgainstWer:
        points = [
            Point(arm, loss, wer)
            for arm, loss, wer in zip(names, losses, rates, strict=True)
            if loss is not None and wer is not None and math.isfinite(loss)
        ]
        correlation = spearman([point.loss for point in points], [point.wer for point in points])
        return LossAgainstWer(title, points, correlation)

    last = [run.value(validation_set(run) or "", LOSS.name) for run in runs]
    unseen = [name for name in test_sets if name not in {validation_set(run) for run in runs}]
    lowest = ([lowest_validation(run, metric) for run in runs] for metric in (LOSS, WER))
    rows = [
        correlate(f"last weights, WER on {name}", last, [run.value(name, WER.name) for run in runs]) for name in unseen
    ]
    return [row for row in (*rows, correlate("lowest of all validations", *lowest)) if row.points]


def lowest_validation(run: Record, metric: Metric) -> float | None:
    """Return the lowest value of a metric over all validations of a run; None if it was not recorded."""
    return min(validation_values(run, metric), default=None)


@dataclass(frozen=True)
class Hyperparameter:
    """A hyperparameter that a search varied.

    - values: value in each run, as a number if possible; rates: best validation WER of each run
    - best: index of the lowest rate; logarithmic: whether the search sampled values on a logarithmic scale
    """

    key: str
    values: list[float] | list[str]
    rates: list[float]
    best: int
    logarithmic: bool


def hyperparameters(comparison: Comparison) -> list[Hyperparameter]:
    """Return the hyperparameters that vary between the runs of a search; empty if there are fewer than two runs.

    Diverged runs are left out.
    """
    runs = [(arm, run) for arm in comparison.arms for run in arm.runs if run.searched]
    tried = [(arm, run, rate) for arm, run in runs if (rate := run.summary.best_validation_wer) is not None]
    if len(tried) < 2:
        return []
    rates = [float(rate) for _, _, rate in tried]
    drawn = frozenset().union(*(logarithmic(run.folder.parent) for _, run, _ in tried))
    return [
        Hyperparameter(key, _parse_numbers(texts), rates, rates.index(min(rates)), key in drawn)
        for key in comparison.design.layout.factor
        if len(set(texts := [arm.levels.get(key, "") for arm, *_ in tried])) > 1
    ]


def ranked(arms: Sequence[Arm]) -> list[tuple[Arm, Record]]:
    """Return the runs of a search with their arms, sorted by best validation WER. Diverged runs come last."""
    tried = [(arm, run) for arm in arms for run in arm.results if run.searched]
    rates = [math.inf if (rate := run.summary.best_validation_wer) is None else rate for _, run in tried]
    return [tried[place] for place in np.argsort(rates, kind="stable")]


def _parse_numbers(texts: list[str]) -> list[float] | list[str]:
    try:
        return [float(text) for text in texts]
    except ValueError:
        return texts


MOST = (0, 2, 9)
"""Maximum number of times that the training set contains a word, for all bands but the last (Ambroszczyk2019 §2.2)."""
BANDS = ("never", "once or twice", "3 to 9 times", "more often")


@dataclass(frozen=True)
class WordFrequencies:
    """The word errors of an arm on a set, grouped by how often the training set contains the word.

    words: number of reference words in each band, averaged over runs. wrong: fraction of these words that were
    substituted or deleted, in an alignment with the fewest errors; nan if the band has no words.
    """

    arm: str
    set: str
    words: list[float]
    wrong: list[float]


def word_frequencies(arms: Sequence[Arm], sets: Sequence[str]) -> list[WordFrequencies]:
    """Return a row for each set and arm whose runs all recorded how often the training set contains each word.

    Empty if the training set contains every word at least three times, as in the built-in corpus with 300 words.
    """
    rows = []
    for name, arm in itertools.product(sets, arms):
        counted = [counts for run in arm.runs if (counts := _count_words(run, name)) is not None]
        if counted and len(counted) == len(arm.runs):
            words, wrong = np.sum(counted, axis=0)
            shares = np.divide(wrong, words, out=np.full(len(BANDS), np.nan), where=words > 0)
            rows.append(WordFrequencies(arm.name, name, (words / len(counted)).tolist(), shares.tolist()))
    return rows if any(row.words[0] or row.words[1] for row in rows) else []


def _count_words(run: Record, name: str) -> np.ndarray | None:
    """Count the words and the wrong words in each band, (2, bands); None if their counts in training are unknown."""
    rows = [row for row in run.utterances if row["set"] == name]
    training_counts = run.data.training_counts
    if not rows or training_counts is None:
        return None
    bands = {word: bisect.bisect_left(MOST, count) for word, count in training_counts.items()}
    counts = np.zeros((2, len(BANDS)))
    for row in rows:
        words = row["reference"].split()
        if not bands.keys() >= set(words):
            return None
        for word in words:
            counts[0, bands[word]] += 1
        for place in error_places(row["reference"], row["hypothesis"]):
            if place % 2:  # odd places are reference words; even places are insertions
                counts[1, bands[words[place // 2]]] += 1
    return counts
