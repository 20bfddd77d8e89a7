"""Estimate a weighted sum of arms' error rates, such as a difference, with its seed noise and its speaker noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asr_verdicts.scales import POINTS, Scale
from asr_verdicts.statistics.distributions import chi_square_quantile
from asr_verdicts.statistics.intervals import shared_variance, speaker_interval, units_of
from asr_verdicts.statistics.sample import SPEAKERS, Sample

UTTERANCES = "utterances"  # the unit of a set whose speakers are unknown
ONE_SPEAKER = "utterances of one speaker"  # the unit of a set with a single speaker

# units that replace unknown speakers: utterances, or recordings of several utterances
UNKNOWN = (UTTERANCES, "files")

FEWEST_TRIMMED = 5  # minimum number of runs per arm for trimming, because 20 % of fewer runs is less than one run


@dataclass(frozen=True)
class Part:
    """The standard error due to one source of noise, and its degrees of freedom."""

    standard_error: float
    degrees: float

    @property
    def variance(self) -> float:
        return self.standard_error**2


@dataclass(frozen=True)
class RunNoise:
    """The variance that one arm's runs add to a weighted sum of means.

    - runs: number of runs n
    - degrees: degrees of freedom of the variance: n − 1, or fewer with trimming
    - variance: weight² times the variance of a single run's rate. The mean of n runs adds variance / n to the sum.
    - shared: part of the variance that the bootstrap over speakers also contains, because some seeds are better on some
      speakers and worse on others
    """

    runs: int
    degrees: float
    variance: float
    shared: float = 0.0


def run_noise(values: Sequence[float]) -> RunNoise:
    """Return one arm's seed noise. values: error rates of at least two runs."""
    return RunNoise(len(values), len(values) - 1, float(np.var(values, ddof=1)))


def over_seeds(arms: Sequence[RunNoise]) -> Part:
    """Return the seed noise of a weighted sum of arms, without speaker noise, with Welch's degrees of freedom."""
    total = sum(arm.variance / arm.runs for arm in arms)
    if not total:
        return Part(0.0, sum(arm.degrees for arm in arms))
    high = [upper(arm.variance / arm.runs, arm.degrees) for arm in arms]
    return Part(math.sqrt(total), sum(high) ** 2 / sum(of**2 / arm.degrees for of, arm in zip(high, arms, strict=True)))


UPPER = 0.2  # probability that a variance exceeds the upper bound that is used to compute degrees of freedom


def upper(variance: float, degrees: float) -> float:
    """Return a variance's upper confidence bound, for Welch's and Satterthwaite's degrees of freedom.

    Both formulas need the true variances. A variance that is small by chance, because it comes from few runs, would get
    too little weight and lead to too many degrees of freedom. Without the bound, the rate of false alarms was 8
    to 13 % for 2 runs against 18 and for 2 pairs. If all arms have equal degrees of freedom, the bound has no effect.
    """
    return float(variance * degrees / chi_square_quantile(UPPER, degrees))


def combined(arms: Sequence[RunNoise], speakers: Part | None) -> Part:
    """Return the noise of seeds and speakers together.

    Seeds and speakers are crossed: their variances are added, and the shared part, which both contain, is subtracted
    once (Cameron, Gelbach & Miller 2011). The result is never below either variance. The degrees of freedom are
    Satterthwaite's (1946), but at least the minimum of the two sources. Although the shared part is subtracted
    from the variance, its uncertainty is added.
    """
    seeds = over_seeds(arms)
    if speakers is None:
        return seeds
    if not seeds.variance or math.isinf(speakers.variance):
        return speakers
    shared = sum(arm.shared / arm.runs for arm in arms)
    variance = max(seeds.variance + speakers.variance - shared, seeds.variance, speakers.variance)
    of_seeds, of_speakers = upper(seeds.variance, seeds.degrees), upper(speakers.variance, speakers.degrees)
    whole = max(of_seeds + of_speakers - shared, of_seeds, of_speakers)
    uncertainty = of_seeds**2 / seeds.degrees + of_speakers**2 / speakers.degrees
    uncertainty += sum((arm.shared / arm.runs) ** 2 / (arm.degrees * speakers.degrees) for arm in arms)
    degrees = max(whole**2 / uncertainty, min(seeds.degrees, speakers.degrees))
    return Part(math.sqrt(variance), degrees)


@dataclass(frozen=True)
class Estimate:
    """An estimated difference of error rates, or of their logarithms, with everything that its test needs.

    - value: difference of rates as fractions, or of their logarithms on the relative scale
    - standard_error, degrees: standard error from seeds and speakers together, and its degrees of freedom
    - information: 1 / Σ (weight² / runs), which is n / 2 for two arms of n runs, and n for n pairs
    - over_seeds, over_speakers: noise of seeds alone, and of speakers alone; None if unknown
    - arms: seed noise of each arm, from which over_seeds is computed
    - speakers: number of units in the test set; 0 if the errors of single utterances are unknown
    - effective: effective number of units, which is smaller if a few units have most of the errors
    - unit: plural name of the units: speakers, voices, utterances if speakers are unknown, or utterances of one speaker
    - models: smallest number of trained models of any arm. It is 1 only if the estimate is paired and about a single
      model.
    - paired: whether the arms' rates are paired, run by run
    - trimmed: whether each arm's mean is trimmed
    - scale: scale of the difference
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
    """Estimate Σ weight · mean rate over independently trained arms; None if an arm has fewer than two runs.

    - terms: weight and sample of each arm. Weights are +1 and −1 for a difference, ± 1/2 for a main effect, and ± 1 for
      an interaction. Arms with weight 0 are left out.
    - trimmed: whether to exclude the best and the worst 20 % of each arm's runs from its mean, with winsorised
      variances (Yuen 1974), because a single failed run with a rate of 100 % makes a plain mean too noisy. Speaker
      noise is measured on the remaining runs.
    - own_speakers: whether each arm has its own test set, for example another language, with independent speaker noise
    - scale: scale of the estimate. On the relative scale, the estimate is Σ weight · log(mean rate), and exp of a
      difference is a ratio. Its noise is linearised: each weight is divided by its arm's mean. None if a mean is 0.

    Arms may have different variances (Welch 1947). Speaker noise is included if every arm has errors by utterance.
    Raises ValueError if arms were tested on different utterances, or if a trimmed arm has fewer than 5 runs.
    """
    used = [(weight, sample) for weight, sample in terms if weight]
    if not used or min(len(sample.rates) for _, sample in used) < 2:
        return None
    fewest = min(len(sample.rates) for _, sample in used)
    if trimmed and fewest < FEWEST_TRIMMED:
        raise ValueError(f"trimmed means need {FEWEST_TRIMMED} runs of every arm; one arm has {fewest}")
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
    """Estimate Σ weight · mean rate over arms whose rows are paired; None if the noise is unknown.

    Rows i of all arms belong together: the same trained model with different decoders, models with the same seed, or
    the same replicate. Seed noise is the variation of the paired differences. A single row has only speaker noise, and
    the estimate then describes this model alone.

    - terms, scale: as in contrast_estimate
    - replicates: whether each row is a replicate with its own corpus and test speakers. The paired differences then
      contain all noise, and their t test has one fewer degree of freedom than there are replicates (Student 1908).
    - overlap: ratio of test data to training data if the replicates are folds of one corpus, else 0. Because the folds'
      training sets overlap, the variance of the mean difference is s² (1 / n + overlap) instead of s² / n. This is the
      corrected resampled t test (Nadeau & Bengio 2003).

    Raises ValueError if the arms have different numbers of rows or, without `replicates`, different utterances.
    """
    samples = [sample for _, sample in terms]
    models = len(samples[0].rates)
    if any(len(sample.rates) != models for sample in samples):
        counts = " and ".join(str(len(sample.rates)) for sample in samples)
        raise ValueError(f"pairs need equal numbers of rows for the arm and the baseline, not {counts}")
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
    # rounding to whole errors adds a variance of grain² / 12 to each rate, as in an unpaired difference
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
    """Return the weighted sum of the samples, row by row. rates_only: whether to leave out the errors by utterance."""
    first = terms[0][1]
    rates = np.sum([weight * sample.rates for weight, sample in terms], axis=0)
    errors = [(weight, sample.errors) for weight, sample in terms if sample.errors is not None]
    if rates_only or len(errors) < len(terms):
        return Sample(rates, grain=first.grain)
    _require_same_utterances([sample for _, sample in terms])
    summed = np.sum([weight * of_sample for weight, of_sample in errors], axis=0)
    return Sample(rates, summed, first.totals, first.speakers, first.grain, first.unit)


def _measure_run_noise(weight: float, sample: Sample, kept: Sample, grain: float) -> RunNoise:
    """Return the seed noise of an arm with n runs, of which h remain after trimming.

    Yuen's variance of the mean is (n − 1) · winsorised variance / (h (h − 1)). Without trimming, it is variance / n.
    """
    runs, left = len(sample.rates), len(kept.rates)
    winsorised = np.clip(sample.rates, kept.rates.min(), kept.rates.max())
    variance = max(float(np.var(winsorised, ddof=1)), grain**2 / 12)  # equal error counts do not prove a variance of 0
    of_mean = (runs - 1) * variance / (left * (left - 1))
    shared = 0.0
    if kept.errors is not None and kept.totals is not None and kept.units is not None:
        shared = runs * shared_variance(kept.errors, kept.totals, kept.units)
    return RunNoise(runs, left - 1, weight**2 * of_mean * runs, weight**2 * shared)


def kept_runs(sample: Sample) -> Sample:
    """Return the sample without the best and the worst fifth of its runs, rounded down."""
    runs = len(sample.rates)
    cut = runs // 5
    order: NDArray[np.intp] = np.argsort(sample.rates, kind="stable")
    return sample.of_runs(order[cut : runs - cut])


@dataclass(frozen=True)
class _Speakers:
    """The speaker noise (None if unknown), with the number, effective number and plural name of the units."""

    part: Part | None
    drawn: int = 0
    effective: float = 0.0
    unit: str = SPEAKERS


def _measure_speaker_noise(
    terms: Sequence[tuple[float, Sample]], mass_of: Sequence[Sample] = (), scale: Scale = POINTS
) -> _Speakers:
    """Return the speaker noise in a weighted sum of mean errors.

    mass_of: samples whose errors determine the effective number of speakers, by default the samples in `terms`

    If e is a speaker's number of errors, the effective number of speakers is (Σ e)² / Σ e² (Kish 1965). It determines
    the degrees of freedom of a relative difference. A difference in points uses the total number of speakers, because
    its false alarms are already rarer than declared if a few speakers have most of the errors. No degrees of freedom
    make up for speakers that were not sampled.
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
    part = Part(interval.standard_error, max(1.0, degrees))  # the standard error of a single unit is infinite
    return _Speakers(part, drawn, effective, unit)


def _measure_own_speakers(terms: Sequence[tuple[float, Sample]], scale: Scale = POINTS) -> _Speakers:
    """Return the speaker noise if every arm has its own speakers, with Satterthwaite's degrees of freedom."""
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
    """Return the smallest step of a rate (grain), or if it is unknown, the smallest difference between two rates."""
    grain = max(sample.grain for sample in samples)
    if grain:
        return grain
    steps = np.diff(np.unique(np.concatenate([sample.rates for sample in samples])))
    return float(steps[steps > 1e-12].min(initial=np.inf)) if (steps > 1e-12).any() else 0.0
