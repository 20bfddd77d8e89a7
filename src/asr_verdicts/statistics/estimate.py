"""A weighted sum of arms on one test set, such as a difference of two, with the noise of seeds and of speakers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf, sqrt

import numpy as np
from numpy.typing import NDArray

from asr_verdicts.scales import POINTS, Scale
from asr_verdicts.statistics.distributions import chi_square_quantile
from asr_verdicts.statistics.intervals import shared_variance, speaker_interval, units_of
from asr_verdicts.statistics.sample import SPEAKERS, Sample

UTTERANCES = "utterances"
"""The unit of a set whose speakers are unknown."""
ONE_SPEAKER = "utterances of one speaker"
"""The unit of a set that has a single speaker."""

UNKNOWN = (UTTERANCES, "files")
"""Units that stand in for speakers who are not known: each utterance, or each recording of several."""

FEWEST_TRIMMED = 5
"""Runs an arm below which 20 % of them is less than one."""


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
    total = sum(arm.variance / arm.runs for arm in arms)
    if not total:
        return Part(0.0, sum(arm.degrees for arm in arms))
    high = [upper(arm.variance / arm.runs, arm.degrees) for arm in arms]
    return Part(sqrt(total), sum(high) ** 2 / sum(of**2 / arm.degrees for of, arm in zip(high, arms, strict=True)))


UPPER = 0.2
"""Of a variance of few degrees of freedom the degrees of a sum take the end that is exceeded with this probability."""


def upper(variance: float, degrees: float) -> float:
    """The upper end of a variance. Welch's and Satterthwaite's degrees of freedom are those of the true variances:
    where the variance of few runs comes out small by luck, it counts for little, and the degrees for too many
    (measured: 8 to 13 % false alarms for 2 runs against 18, and for 2 pairs). Equal degrees change nothing.
    """
    return float(variance * degrees / chi_square_quantile(UPPER, degrees))


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
    of_seeds, of_speakers = upper(seeds.variance, seeds.degrees), upper(speakers.variance, speakers.degrees)
    whole = max(of_seeds + of_speakers - shared, of_seeds, of_speakers)
    uncertainty = of_seeds**2 / seeds.degrees + of_speakers**2 / speakers.degrees
    uncertainty += sum((arm.shared / arm.runs) ** 2 / (arm.degrees * speakers.degrees) for arm in arms)
    degrees = max(whole**2 / uncertainty, min(seeds.degrees, speakers.degrees))
    return Part(sqrt(variance), degrees)


@dataclass(frozen=True)
class Estimate:
    """An estimated difference of error rates, a fraction, or of their logarithms, with all that a test of it needs.

    standard_error and degrees: of seeds and speakers together. information: what the number of runs adds to the
    precision, 1 / Σ weight² / runs, which is n / 2 for two arms of n runs and n for n pairs.

    over_seeds, over_speakers: the noise of each source alone; None where it is unknown. arms: what over_seeds is made
    of. speakers: how many units were drawn, 0 where no speakers are known; effective: as how many they count by the
    errors that each of them carries; unit: what a unit is, such as speakers or voices, utterances where speakers are
    unknown, and utterances of one speaker where the set has a single one. models: trained models of the arm with the
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
    effective: float
    unit: str
    models: int
    paired: bool = False
    trimmed: bool = False
    scale: Scale = POINTS


def contrast_estimate(
    terms: Sequence[tuple[float, Sample]],
    *,
    trimmed: bool = False,
    own_speakers: bool = False,
    scale: Scale = POINTS,
) -> Estimate | None:
    """Σ weight · mean rate over arms that were trained independently; None if one of them has fewer than two runs.

    terms: a weight and a sample for each arm, each arm once: +1 and −1 for a difference, ± 1/2 for a main effect, ± 1
    for an interaction. Arms of weight 0 are left out. Arms may be unequally noisy (Welch 1947); speakers count where
    every arm has errors by utterance.

    trimmed: means without the best and the worst 20 % of an arm's runs, by rate, with winsorised variances (Yuen 1974);
    the noise of speakers comes from the runs kept. For arms some of whose runs fail: one run of 100 % makes a mean
    too noisy to show anything.

    own_speakers: each arm has a test set of its own, as two languages have, whose noise of speakers is independent.

    scale: relative estimates Σ weight · log(mean rate), so that exp of a difference is a ratio. It is linearised: the
    weight of an arm is divided by its mean. None where a mean is 0.

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
    kept = [kept_runs(sample) if trimmed else sample for _, sample in used]
    means = [float(sample.rates.mean()) for sample in kept]
    weights = scale.weights([weight for weight, _ in used], means)
    if weights is None:
        return None
    measured = list(zip(weights, kept, strict=True))
    speakers = (_noise_of_own_speakers if own_speakers else _speaker_noise)(measured, scale=scale)
    arms = tuple(
        _run_noise(weight, sample, rest, grain) for weight, (_, sample), rest in zip(weights, used, kept, strict=True)
    )
    noise = combined(arms, speakers.part)
    return Estimate(
        value=scale.value([weight for weight, _ in used], means),
        standard_error=noise.standard_error,
        degrees=noise.degrees,
        information=1 / sum(weight**2 / len(sample.rates) for weight, sample in used),
        over_seeds=over_seeds(arms),
        over_speakers=speakers.part,
        arms=arms,
        speakers=speakers.drawn,
        effective=speakers.effective,
        unit=speakers.unit,
        models=fewest,
        trimmed=trimmed,
        scale=scale,
    )


def paired_estimate(
    terms: Sequence[tuple[float, Sample]],
    *,
    replicates: bool = False,
    overlap: float = 0.0,
    scale: Scale = POINTS,
) -> Estimate | None:
    """Σ weight · mean rate over arms whose rows belong together; None where its noise is unknown.

    The rows are the same trained models, as with two decoders: the noise of seeds is the noise of the differences over
    models. With a single model there are speakers alone, and the estimate is about this model.

    replicates: a row is a replicate with a corpus and test speakers of its own, so that the differences of the rates
    hold all noise; their t test has one degree of freedom fewer than replicates (Student 1908).

    overlap: how much test material there is for each training material where the replicates are folds of one corpus.
    Their training sets overlap, so that the differences are not independent, and the variance of their mean is
    s² (1 / n + overlap) in place of s² / n (Nadeau & Bengio 2003, the corrected resampled t test).

    terms, scale: as in contrast_estimate. Raises ValueError where the rows or the utterances of the arms differ.
    """
    samples = [sample for _, sample in terms]
    models = len(samples[0].rates)
    if any(len(sample.rates) != models for sample in samples):
        counts = " and ".join(str(len(sample.rates)) for sample in samples)
        raise ValueError(f"pairs need as many rows of the arm as of the baseline, not {counts}")
    if not models:
        return None
    means = [float(sample.rates.mean()) for sample in samples]
    weights = scale.weights([weight for weight, _ in terms], means)
    if weights is None:
        return None
    differences = _differences(list(zip(weights, samples, strict=True)), rates_only=replicates)
    speakers = _speaker_noise([(1.0, differences)], mass_of=samples, scale=scale)
    if models < 2 and speakers.part is None:
        return None
    # every rate is rounded to the grain: as in an unpaired difference, each adds its own grain² / 12
    grain = _smallest_step(samples) * math.sqrt(sum(weight**2 for weight in weights))
    arms = (_run_noise(math.sqrt(1 + models * overlap), differences, differences, grain),) if models > 1 else ()
    noise = combined(arms, speakers.part) if arms else speakers.part
    assert noise is not None
    return Estimate(
        value=scale.value([weight for weight, _ in terms], means),
        standard_error=noise.standard_error,
        degrees=noise.degrees,
        information=float(models),
        over_seeds=over_seeds(arms) if arms else None,
        over_speakers=speakers.part,
        arms=arms,
        speakers=speakers.drawn,
        effective=speakers.effective,
        unit=speakers.unit,
        models=models,
        paired=True,
        scale=scale,
    )


def _differences(terms: Sequence[tuple[float, Sample]], rates_only: bool) -> Sample:
    """Σ weight · sample, row by row."""
    first = terms[0][1]
    rates = np.sum([weight * sample.rates for weight, sample in terms], axis=0)
    errors = [(weight, sample.errors) for weight, sample in terms if sample.errors is not None]
    if rates_only or len(errors) < len(terms):
        return Sample(rates, grain=first.grain)
    _require_same_utterances([sample for _, sample in terms])
    summed = np.sum([weight * of_sample for weight, of_sample in errors], axis=0)
    return Sample(rates, summed, first.totals, first.speakers, first.grain, first.unit)


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


def kept_runs(sample: Sample) -> Sample:
    """The sample without a fifth of the runs, rounded down, at either end: those that trimmed means are of."""
    runs = len(sample.rates)
    cut = runs // 5
    order: NDArray[np.intp] = np.argsort(sample.rates, kind="stable")
    return sample.of_runs(order[cut : runs - cut])


@dataclass(frozen=True)
class _Speakers:
    """The noise of speakers, None where none are known; how many units were drawn, how many they count as, and what
    they are.
    """

    part: Part | None
    drawn: int = 0
    effective: float = 0.0
    unit: str = SPEAKERS


def _speaker_noise(
    terms: Sequence[tuple[float, Sample]], mass_of: Sequence[Sample] = (), scale: Scale = POINTS
) -> _Speakers:
    """The noise of speakers in a weighted sum of mean errors. mass_of: the samples whose errors show which speakers
    carry the rate, by default those of the terms.

    The effective number of speakers is (Σ e)² / Σ e² over the errors e of the units (Kish 1965). It sets the degrees of
    freedom of a ratio. A difference in points keeps those of all units: where few speakers carry the errors its false
    alarms are rarer than declared already, and no degrees of freedom make up for the speakers that were not drawn.
    """
    means = [weight * sample.errors.mean(axis=0) for weight, sample in terms if sample.errors is not None]
    if len(means) < len(terms):
        return _Speakers(None)
    _require_same_utterances([sample for _, sample in terms])
    first = terms[0][1]
    assert first.totals is not None
    assert first.units is not None
    interval = speaker_interval(np.sum(means, axis=0), first.totals, first.units)
    unit = UTTERANCES if first.speakers is None else first.unit
    if unit not in UNKNOWN and len(np.unique(first.units)) < 2:
        unit = ONE_SPEAKER
    carriers = mass_of or [sample for _, sample in terms]
    mass = np.sum([sample.errors.mean(axis=0) for sample in carriers if sample.errors is not None], axis=0)
    by_unit = np.bincount(units_of(first.units), weights=mass)
    drawn = round(interval.degrees) + 1
    effective = float(by_unit.sum() ** 2 / (by_unit**2).sum()) if by_unit.any() else float(drawn)
    degrees = scale.degrees(drawn, effective)
    part = Part(interval.standard_error, max(1.0, degrees))  # one unit: its error is infinite
    return _Speakers(part, drawn, effective, unit)


def _noise_of_own_speakers(terms: Sequence[tuple[float, Sample]], scale: Scale = POINTS) -> _Speakers:
    """The noise of speakers where every arm has others: the variances add up, with Satterthwaite's degrees of freedom;
    the units of all arms together.
    """
    arms = [(abs(weight), _speaker_noise([(1.0, sample)], scale=scale)) for weight, sample in terms]
    parts = [Part(weight * arm.part.standard_error, arm.part.degrees) for weight, arm in arms if arm.part is not None]
    if len(parts) < len(arms):
        return _Speakers(None)
    total = sum(part.variance for part in parts)
    degrees = min(part.degrees for part in parts)
    if total and np.isfinite(total):
        high = [upper(part.variance, part.degrees) for part in parts]
        degrees = sum(high) ** 2 / sum(of**2 / part.degrees for of, part in zip(high, parts, strict=True))
    units = {arm.unit for _, arm in arms}
    return _Speakers(
        Part(float(np.sqrt(total)), degrees),
        sum(arm.drawn for _, arm in arms),
        sum(arm.effective for _, arm in arms),
        ONE_SPEAKER if ONE_SPEAKER in units else " and ".join(sorted(units)),
    )


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
