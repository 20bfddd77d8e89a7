"""A weighted sum of arms on one test set, such as a difference, with the noise of seeds and speakers."""

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

UTTERANCES = "utterances"  # the unit of a set whose speakers are unknown
ONE_SPEAKER = "utterances of one speaker"  # the unit of a set with a single speaker

# units in place of unknown speakers: each utterance, or each recording of several utterances
UNKNOWN = (UTTERANCES, "files")

FEWEST_TRIMMED = 5  # runs per arm; 20 % of fewer runs is less than one run


@dataclass(frozen=True)
class Part:
    """The standard error from one source of noise alone, and its degrees of freedom."""

    standard_error: float
    degrees: float

    @property
    def variance(self) -> float:
        return self.standard_error**2


@dataclass(frozen=True)
class RunNoise:
    """The variance that the runs of one arm add to a weighted sum of means.

    - runs: their number n; degrees: of freedom of the variance, n − 1, or fewer with trimming
    - variance: weight² times the variance of a single run's rate; the mean of n runs adds variance / n
    - shared: the part from seeds that differ by speaker, which the bootstrap over speakers contains, too
    """

    runs: int
    degrees: float
    variance: float
    shared: float = 0.0


def run_noise(values: Sequence[float]) -> RunNoise:
    """The noise of one arm's runs, at least two."""
    return RunNoise(len(values), len(values) - 1, float(np.var(values, ddof=1)))


def over_seeds(arms: Sequence[RunNoise]) -> Part:
    """The noise of seeds alone, with Welch's degrees of freedom."""
    total = sum(arm.variance / arm.runs for arm in arms)
    if not total:
        return Part(0.0, sum(arm.degrees for arm in arms))
    high = [upper(arm.variance / arm.runs, arm.degrees) for arm in arms]
    return Part(sqrt(total), sum(high) ** 2 / sum(of**2 / arm.degrees for of, arm in zip(high, arms, strict=True)))


UPPER = 0.2  # probability that a variance exceeds the upper confidence bound that degrees of freedom use


def upper(variance: float, degrees: float) -> float:
    """The upper confidence bound of a variance, for Welch's and Satterthwaite's degrees of freedom.

    Their formulas need the true variances. A variance of few runs that is small by luck would count too little, and the
    degrees of freedom would be too many: 8 to 13 % false alarms were measured for 2 runs against 18, and for 2 pairs.
    Between arms with equal degrees of freedom the bound changes nothing.
    """
    return float(variance * degrees / chi_square_quantile(UPPER, degrees))


def combined(arms: Sequence[RunNoise], speakers: Part | None) -> Part:
    """The noise of seeds and speakers together.

    The two sources are crossed: their variances are added, and the shared part, which is in both, is subtracted once
    (Cameron, Gelbach & Miller 2011). The result is never below either. The degrees of freedom are Satterthwaite's
    (1946), never fewer than the smaller number of the two sources. The shared part counts as a further source of noise
    there, although it is subtracted.
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
    """An estimated difference of error rates, a fraction, or of their logarithms, with everything that its test needs.

    - standard_error, degrees: of seeds and speakers together
    - information: of the runs, 1 / Σ (weight² / runs), which is n / 2 for two arms of n runs, and n for n pairs
    - over_seeds, over_speakers: the noise of each source alone; None if unknown
    - arms: the noise of each arm's runs, from which over_seeds is computed
    - speakers: the number of units drawn, 0 if speakers are unknown; effective: the number they count as, by their
      errors
    - unit: speakers, voices, utterances if speakers are unknown, or utterances of one speaker
    - models: trained models of the arm with the fewest; 1 only in a paired estimate about this model alone
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
    """Σ weight · mean rate over independently trained arms; None if an arm has fewer than two runs.

    - terms: weight and sample of each arm, each arm once: +1 and −1 for a difference, ± 1/2 for a main effect, ± 1 for
      an interaction; arms of weight 0 are left out
    - trimmed: use means without the best and the worst 20 % of an arm's runs, with winsorised variances (Yuen 1974);
      the noise of speakers comes from the runs kept. A single failed run of 100 % would make a plain mean too noisy.
    - own_speakers: each arm has its own test set, such as another language, with independent noise of speakers
    - scale: relative estimates Σ weight · log(mean rate), so that exp of a difference is a ratio. It is linearised:
      each weight is divided by its arm's mean. The estimate is None if a mean is 0.

    Arms may be unequally noisy (Welch 1947). Speakers count if every arm has errors by utterance. Raises ValueError if
    arms were tested on different utterances, or if a trimmed arm has fewer than 5 runs.
    """
    used = [(weight, sample) for weight, sample in terms if weight]
    if not used or min(len(sample.rates) for _, sample in used) < 2:
        return None
    fewest = min(len(sample.rates) for _, sample in used)
    if trimmed and fewest < FEWEST_TRIMMED:
        raise ValueError(f"trimmed means need {FEWEST_TRIMMED} runs of every arm; one has {fewest}")
    grain = _find_smallest_step([sample for _, sample in used])
    remaining = [kept_runs(sample) if trimmed else sample for _, sample in used]
    means = [float(sample.rates.mean()) for sample in remaining]
    weights = scale.weights([weight for weight, _ in used], means)
    if weights is None:
        return None
    measured = list(zip(weights, remaining, strict=True))
    speakers = (_measure_own_speakers if own_speakers else _measure_speaker_noise)(measured, scale=scale)
    arms = tuple(
        _measure_run_noise(weight, sample, rest, grain)
        for weight, (_, sample), rest in zip(weights, used, remaining, strict=True)
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
    """Σ weight · mean rate over arms whose rows belong together; None if the noise is unknown.

    The rows are the same trained models, as with two decoders. The noise of seeds is the noise of the differences over
    models. With a single model only speakers count, and the estimate is about this model.

    - replicates: each row is a replicate with its own corpus and test speakers, so that the differences of the rates
      contain all noise; their t test has one degree of freedom fewer than replicates (Student 1908)
    - overlap: test material per training material if the replicates are folds of one corpus. Their training sets
      overlap, so the variance of the mean difference is s² (1 / n + overlap) instead of s² / n. This is the corrected
      resampled t test (Nadeau & Bengio 2003).
    - terms, scale: as in contrast_estimate

    Raises ValueError if the rows or the utterances of the arms differ.
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
    differences = _weighted_sum(list(zip(weights, samples, strict=True)), rates_only=replicates)
    speakers = _measure_speaker_noise([(1.0, differences)], mass_of=samples, scale=scale)
    if models < 2 and speakers.part is None:
        return None
    # every rate is rounded to the grain and adds its own grain² / 12, as in an unpaired difference
    grain = _find_smallest_step(samples) * math.sqrt(sum(weight**2 for weight in weights))
    arms = (_measure_run_noise(math.sqrt(1 + models * overlap), differences, differences, grain),) if models > 1 else ()
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


def _weighted_sum(terms: Sequence[tuple[float, Sample]], rates_only: bool) -> Sample:
    """The weighted sum of the samples, row by row."""
    first = terms[0][1]
    rates = np.sum([weight * sample.rates for weight, sample in terms], axis=0)
    errors = [(weight, sample.errors) for weight, sample in terms if sample.errors is not None]
    if rates_only or len(errors) < len(terms):
        return Sample(rates, grain=first.grain)
    _require_same_utterances([sample for _, sample in terms])
    summed = np.sum([weight * of_sample for weight, of_sample in errors], axis=0)
    return Sample(rates, summed, first.totals, first.speakers, first.grain, first.unit)


def _measure_run_noise(weight: float, sample: Sample, kept: Sample, grain: float) -> RunNoise:
    """The noise of an arm with n runs, of which h are kept.

    Yuen's variance of the mean is (n − 1) · winsorised variance / (h (h − 1)), or variance / n if all runs are kept.
    """
    runs, left = len(sample.rates), len(kept.rates)
    winsorised = np.clip(sample.rates, kept.rates.min(), kept.rates.max())
    variance = max(float(np.var(winsorised, ddof=1)), grain**2 / 12)  # equal counts do not prove a variance of 0
    of_mean = (runs - 1) * variance / (left * (left - 1))
    shared = 0.0
    if kept.errors is not None and kept.totals is not None and kept.units is not None:
        shared = runs * shared_variance(kept.errors, kept.totals, kept.units)
    return RunNoise(runs, left - 1, weight**2 * of_mean * runs, weight**2 * shared)


def kept_runs(sample: Sample) -> Sample:
    """The sample without the best and the worst fifth of its runs, rounded down, as trimmed means need it."""
    runs = len(sample.rates)
    cut = runs // 5
    order: NDArray[np.intp] = np.argsort(sample.rates, kind="stable")
    return sample.of_runs(order[cut : runs - cut])


@dataclass(frozen=True)
class _Speakers:
    """The noise of speakers, None if unknown; the units drawn, the number they count as, and their kind."""

    part: Part | None
    drawn: int = 0
    effective: float = 0.0
    unit: str = SPEAKERS


def _measure_speaker_noise(
    terms: Sequence[tuple[float, Sample]], mass_of: Sequence[Sample] = (), scale: Scale = POINTS
) -> _Speakers:
    """The noise of speakers in a weighted sum of mean errors.

    mass_of: the samples whose errors show which speakers carry the rate, by default the samples of the terms.

    The effective number of speakers is (Σ e)² / Σ e² over the errors e of the units (Kish 1965). It sets the degrees of
    freedom of a ratio. A difference in points uses the number of all units. If few speakers carry the errors, its false
    alarms are already rarer than declared, and no degrees of freedom make up for speakers that were not drawn.
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


def _measure_own_speakers(terms: Sequence[tuple[float, Sample]], scale: Scale = POINTS) -> _Speakers:
    """The noise of speakers if every arm has its own, over the units of all arms.

    The variances are added, with Satterthwaite's degrees of freedom.
    """
    arms = [(abs(weight), _measure_speaker_noise([(1.0, sample)], scale=scale)) for weight, sample in terms]
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


def _find_smallest_step(samples: Sequence[Sample]) -> float:
    """The grain; if it is unknown, the smallest step between two rates, which is never below the grain."""
    grain = max(sample.grain for sample in samples)
    if grain:
        return grain
    steps = np.diff(np.unique(np.concatenate([sample.rates for sample in samples])))
    return float(steps[steps > 1e-12].min(initial=np.inf)) if (steps > 1e-12).any() else 0.0
