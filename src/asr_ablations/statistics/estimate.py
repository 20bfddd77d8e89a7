"""A weighted sum of arms on one test set, such as a difference of two, with the noise of seeds and of speakers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf, sqrt

import numpy as np
from numpy.typing import NDArray

from asr_ablations.statistics.intervals import shared_variance, speaker_interval
from asr_ablations.statistics.sample import SPEAKERS, Sample


@dataclass(frozen=True)
class Part:
    """The standard error that one source of noise would give alone, and its degrees of freedom."""

    standard_error: float
    degrees: float

    @property
    def variance(self) -> float:
        return self.standard_error**2


@dataclass(frozen=True)
class RunNoise:
    """The variance that the runs of one arm add to a weighted sum of means.

    runs: their number n; degrees: of the variance, n − 1, or fewer with trimming; variance: weight² times the
    variance of a single run's rate, so that the mean of n runs adds variance / n; shared: the part of it that comes
    from seeds that differ by speaker, which the bootstrap over speakers holds too.
    """

    runs: int
    degrees: float
    variance: float
    shared: float = 0.0


def run_noise(values: Sequence[float]) -> RunNoise:
    """The noise of the runs of one arm, two or more."""
    return RunNoise(len(values), len(values) - 1, float(np.var(values, ddof=1)))


def over_seeds(arms: Sequence[RunNoise]) -> Part:
    """The noise of seeds alone, with Welch's degrees of freedom."""
    variances = [(arm.variance / arm.runs, arm.degrees) for arm in arms]
    total = sum(variance for variance, _ in variances)
    if not total:
        return Part(0.0, sum(degrees for _, degrees in variances))
    return Part(sqrt(total), total**2 / sum(variance**2 / degrees for variance, degrees in variances))


def combined(arms: Sequence[RunNoise], speakers: Part | None) -> Part:
    """The noise of seeds and speakers together.

    They are two crossed sources: their variances are added and the shared part, which is in both, is taken off once
    (Cameron, Gelbach & Miller 2011). The result is never below either. Its degrees of freedom are Satterthwaite's
    (1946), in which the shared part counts as a further source of noise although it is subtracted, and never fewer than
    the poorer source has.
    """
    seeds = over_seeds(arms)
    if speakers is None:
        return seeds
    if not seeds.variance or isinf(speakers.variance):
        return speakers
    shared = sum(arm.shared / arm.runs for arm in arms)
    variance = max(seeds.variance + speakers.variance - shared, seeds.variance, speakers.variance)
    uncertainty = seeds.variance**2 / seeds.degrees + speakers.variance**2 / speakers.degrees
    uncertainty += sum((arm.shared / arm.runs) ** 2 / (arm.degrees * speakers.degrees) for arm in arms)
    degrees = max(variance**2 / uncertainty, min(seeds.degrees, speakers.degrees))
    return Part(sqrt(variance), degrees)


UTTERANCES = "utterances"
"""The unit of a set that has one speaker or names none."""

FEWEST_TRIMMED = 5
"""Runs an arm below which 20 % of them is less than one."""


@dataclass(frozen=True)
class Estimate:
    """An estimated difference of error rates, a fraction, with all that a test of it needs.

    standard_error and degrees: of seeds and speakers together. information: what the number of runs adds to the
    precision, 1 / Σ weight² / runs, which is n / 2 for two arms of n runs and n for n pairs.

    over_seeds, over_speakers: the noise of each source alone; None where it is unknown. arms: what over_seeds is made
    of. speakers: how many units were drawn, 0 where no speakers are known; unit: what a unit is, such as speakers or
    voices, and utterances where the set has one speaker or none is named. models: trained models of the arm with the
    fewest; 1 only for a paired estimate, which is then about this model and holds no noise of seeds.
    """

    value: float
    standard_error: float
    degrees: float
    information: float
    over_seeds: Part | None
    over_speakers: Part | None
    arms: tuple[RunNoise, ...]
    speakers: int
    unit: str
    models: int
    paired: bool = False
    trimmed: bool = False


def contrast_estimate(
    terms: Sequence[tuple[float, Sample]], *, trimmed: bool = False, own_speakers: bool = False
) -> Estimate | None:
    """Σ weight · mean rate over arms that were trained independently; None if one of them has fewer than two runs.

    terms: a weight and a sample for each arm, each arm once: +1 and −1 for a difference, ± 1/2 for a main effect, ± 1
    for an interaction. Arms of weight 0 are left out. Arms may be unequally noisy (Welch 1947); speakers count where
    every arm has errors by utterance.

    trimmed: means without the best and the worst 20 % of an arm's runs, by rate, with winsorised variances (Yuen 1974);
    the noise of speakers comes from the runs kept. For arms some of whose runs diverge: one run of 100 % makes a mean
    too noisy to show anything.

    own_speakers: each arm has a test set of its own, as two languages have, whose noise of speakers is independent.

    Raises ValueError where other arms were tested on different utterances, and where a trimmed arm has fewer than 5
    runs.
    """
    used = [(weight, sample) for weight, sample in terms if weight]
    if not used or min(len(sample.rates) for _, sample in used) < 2:
        return None
    fewest = min(len(sample.rates) for _, sample in used)
    if trimmed and fewest < FEWEST_TRIMMED:
        raise ValueError(f"trimmed means need {FEWEST_TRIMMED} runs of every arm; one has {fewest}")
    grain = _smallest_step([sample for _, sample in used])
    kept = [(weight, _kept(sample) if trimmed else sample) for weight, sample in used]
    speakers, units, unit = _noise_of_own_speakers(kept) if own_speakers else _speaker_noise(kept)
    arms = tuple(
        _run_noise(weight, sample, rest, grain) for (weight, sample), (_, rest) in zip(used, kept, strict=True)
    )
    noise = combined(arms, speakers)
    return Estimate(
        value=sum(weight * float(sample.rates.mean()) for weight, sample in kept),
        standard_error=noise.standard_error,
        degrees=noise.degrees,
        information=1 / sum(weight**2 / len(sample.rates) for weight, sample in used),
        over_seeds=over_seeds(arms),
        over_speakers=speakers,
        arms=arms,
        speakers=units,
        unit=unit,
        models=fewest,
        trimmed=trimmed,
    )


def paired_estimate(
    arm: Sample, baseline: Sample, *, replicates: bool = False, overlap: float = 0.0
) -> Estimate | None:
    """Mean difference of two arms whose rows belong together; None where nothing tells its noise.

    The rows are the same trained models, as with two decoders: the noise of seeds is the noise of the differences over
    models. With a single model there are speakers alone, and the estimate is about this model.

    replicates: a row is a replicate with a corpus and test speakers of its own, so that the differences of the rates
    hold all noise; their t test has one degree of freedom fewer than replicates (Student 1908).

    overlap: how much test material there is for each training material where the replicates are folds of one corpus.
    Their training sets overlap, so that the differences are not independent, and the variance of their mean is
    s² (1 / n + overlap) in place of s² / n (Nadeau & Bengio 2003, the corrected resampled t test).

    Raises ValueError where the rows or the utterances of the two differ.
    """
    models = len(arm.rates)
    if models != len(baseline.rates):
        raise ValueError(
            f"pairs need as many rows of the arm as of the baseline, not {models} and {len(baseline.rates)}"
        )
    differences = _differences(arm, baseline, rates_only=replicates)
    speakers, units, unit = _speaker_noise([(1.0, differences)])
    if models < 2 and (speakers is None or not models):
        return None
    # both rates are rounded to the grain: as in an unpaired difference, each adds its own grain² / 12
    grain = np.sqrt(2.0) * _smallest_step([arm, baseline])
    arms = (_run_noise(math.sqrt(1 + models * overlap), differences, differences, grain),) if models > 1 else ()
    noise = combined(arms, speakers) if arms else speakers
    assert noise is not None
    return Estimate(
        value=float(differences.rates.mean()),
        standard_error=noise.standard_error,
        degrees=noise.degrees,
        information=float(models),
        over_seeds=over_seeds(arms) if arms else None,
        over_speakers=speakers,
        arms=arms,
        speakers=units,
        unit=unit,
        models=models,
        paired=True,
    )


def _differences(arm: Sample, baseline: Sample, rates_only: bool) -> Sample:
    """The arm less the baseline, row by row."""
    rates = arm.rates - baseline.rates
    if rates_only or arm.errors is None or baseline.errors is None:
        return Sample(rates)
    _require_same_utterances([arm, baseline])
    return Sample(rates, arm.errors - baseline.errors, arm.totals, arm.speakers, arm.grain, arm.unit)


def _run_noise(weight: float, sample: Sample, kept: Sample, grain: float) -> RunNoise:
    """The noise of an arm of n runs of which h are kept: Yuen's (n − 1) · winsorised variance / (h (h − 1)), which is
    variance / n where all are kept.
    """
    runs, left = len(sample.rates), len(kept.rates)
    winsorised = np.clip(sample.rates, kept.rates.min(), kept.rates.max())
    variance = max(float(np.var(winsorised, ddof=1)), grain**2 / 12)  # equal counts are no proof of a variance of 0
    of_mean = (runs - 1) * variance / (left * (left - 1))
    shared = 0.0
    if kept.errors is not None and kept.totals is not None and kept.units is not None:
        shared = runs * shared_variance(kept.errors, kept.totals, kept.units)
    return RunNoise(runs, left - 1, weight**2 * of_mean * runs, weight**2 * shared)


def _kept(sample: Sample) -> Sample:
    """Without a fifth of the runs, rounded down, at either end."""
    runs = len(sample.rates)
    cut = runs // 5
    order: NDArray[np.intp] = np.argsort(sample.rates, kind="stable")
    return sample.of_runs(order[cut : runs - cut])


def _speaker_noise(terms: Sequence[tuple[float, Sample]]) -> tuple[Part | None, int, str]:
    """The noise of speakers in a weighted sum of mean errors, how many units are drawn, and what they are."""
    means = [weight * sample.errors.mean(axis=0) for weight, sample in terms if sample.errors is not None]
    if len(means) < len(terms):
        return None, 0, SPEAKERS
    _require_same_utterances([sample for _, sample in terms])
    first = terms[0][1]
    assert first.totals is not None
    assert first.units is not None
    interval = speaker_interval(np.sum(means, axis=0), first.totals, first.units)
    named = first.speakers is not None and len(np.unique(first.speakers)) > 1
    noise = Part(interval.standard_error, max(1.0, interval.degrees))  # one unit: its error is infinite
    return noise, round(interval.degrees) + 1, first.unit if named else UTTERANCES


def _noise_of_own_speakers(
    terms: Sequence[tuple[float, Sample]],
) -> tuple[Part | None, int, str]:
    """The noise of speakers where every arm has others: the variances add up, Satterthwaite's degrees of freedom; how
    many were drawn over all arms, and what they are.
    """
    parts: list[Part] = []
    drawn, units = 0, set[str]()
    for weight, sample in terms:
        part, count, unit = _speaker_noise([(1.0, sample)])
        if part is None:
            return None, 0, SPEAKERS
        parts.append(Part(abs(weight) * part.standard_error, part.degrees))
        drawn, units = drawn + count, units | {unit}
    total = sum(part.variance for part in parts)
    degrees = min(part.degrees for part in parts)
    if total and np.isfinite(total):
        degrees = total**2 / sum(part.variance**2 / part.degrees for part in parts)
    return (
        Part(float(np.sqrt(total)), degrees),
        drawn,
        UTTERANCES if UTTERANCES in units else " and ".join(sorted(units)),
    )


def weighted(terms: Sequence[tuple[float, Sample]]) -> Sample:
    """Σ weight · sample, row by row, of samples whose rows are the same trained models."""
    first = terms[0][1]
    rates = np.sum([weight * sample.rates for weight, sample in terms], axis=0)
    errors = [(weight, sample.errors) for weight, sample in terms if sample.errors is not None]
    if len(errors) < len(terms):
        return Sample(rates, grain=first.grain)
    _require_same_utterances([sample for _, sample in terms])
    summed = np.sum([weight * of_sample for weight, of_sample in errors], axis=0)
    return Sample(rates, summed, first.totals, first.speakers, first.grain, first.unit)


def _require_same_utterances(samples: Sequence[Sample]) -> None:
    if not all(sample.has_utterances_of(samples[0]) for sample in samples[1:]):
        raise ValueError("arms were tested on different utterances: they cannot be compared")


def _smallest_step(samples: Sequence[Sample]) -> float:
    """The grain; where it is unknown, the smallest step between any two rates, which is never below it."""
    known = max(sample.grain for sample in samples)
    if known:
        return known
    steps = np.diff(np.unique(np.concatenate([sample.rates for sample in samples])))
    return float(steps[steps > 1e-12].min(initial=np.inf)) if (steps > 1e-12).any() else 0.0
