"""Tables derived from a comparison: sources of noise, gradients, loss against WER, search, and word frequencies."""

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
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
class Correlation:
    """A correlation from −1 to 1 with its 95 % interval and the number of pairs."""

    value: float
    low: float
    high: float
    n: int


def spearman(x: Sequence[float], y: Sequence[float]) -> Correlation | None:
    """Return Spearman's rank correlation; None with fewer than four pairs, or if one side is constant.

    The interval is Fisher's, with the variance 1.06 / (n − 3) for ranks (Fieller, Hartley & Pearson 1957).
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
    """Return ranks from 1; equal values share the mean of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places])


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
    """Return the runs proposed by a search with their arms, sorted by the minimised metric; diverged runs are last."""
    tried = [(arm, run) for arm in arms for run in arm.results if run.searched]
    rates = [math.inf if (rate := run.summary.best_validation_wer) is None else rate for _, run in tried]
    return [tried[place] for place in np.argsort(rates, kind="stable")]


def _parse_numbers(texts: list[str]) -> list[float] | list[str]:
    try:
        return [float(text) for text in texts]
    except ValueError:
        return texts


def variance_ratio_interval(ratio: float, degrees: float, degrees_below: float) -> tuple[float, float]:
    """Return the 95 % interval (Fisher's F) of a ratio of two normal variables' variances, from the measured one."""
    low, high = (ratio / float(special.fdtri(degrees, degrees_below, mass)) for mass in (0.975, 0.025))
    return low, high


MOST = (0, 2, 9)
"""Maximum occurrences in training for the words of each band except the last (Ambroszczyk2019 §2.2)."""
BANDS = ("never", "once or twice", "3 to 9 times", "more often")


@dataclass(frozen=True)
class WordFrequencies:
    """An arm on a set. words: number of reference words in each of BANDS, mean over runs. wrong: the fraction of these
    that is wrong or missing in an alignment with the fewest errors; nan without words.
    """

    arm: str
    set: str
    words: list[float]
    wrong: list[float]


def word_frequencies(arms: Sequence[Arm], sets: Sequence[str]) -> list[WordFrequencies]:
    """Return a row per arm and set if its runs recorded the words' frequencies in training. Empty if training has all
    words at least three times, as in the built-in corpus with 300 words.
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
    """Return words and wrong words of a run on a set (2, bands); None if training frequencies are unknown."""
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
            if place % 2:  # a word of the reference; an insertion has an even place
                counts[1, bands[words[place // 2]]] += 1
    return counts
