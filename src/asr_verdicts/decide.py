"""Measure the difference for each question on each test set, and decide each question."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from asr_verdicts.arms import Arm, has_learned
from asr_verdicts.failures import DEFAULT, DIVERGED, FailureRule
from asr_verdicts.identical_arms import count_once
from asr_verdicts.record import ONE_SYSTEM
from asr_verdicts.samples import SetSamples, measure_set
from asr_verdicts.scales import POINTS, SCALES, Scale
from asr_verdicts.statistics.estimate import FEWEST_TRIMMED, Estimate, contrast_estimate, kept_runs, paired_estimate
from asr_verdicts.statistics.intervals import Range
from asr_verdicts.statistics.mapsswe import error_places, matched_pairs, segment_differences
from asr_verdicts.statistics.multiple_testing import holm_decisions
from asr_verdicts.statistics.power import detectable_range, levers, repetition
from asr_verdicts.statistics.procedures import ALPHA, ANYTIME, Procedure, equal_level
from asr_verdicts.statistics.sample import Sample
from asr_verdicts.verdict import EQUIVALENT, SHOWN, Outcome, Question, Verdict

# true differences, as fractions, for which reports state how many seeds or speakers are needed to detect them
DIFFERENCES = (0.005, 0.01, 0.02)


@dataclass(frozen=True)
class Family:
    """Questions that are decided together, with a joint false-claim rate of `alpha`.

    - size: minimum number of comparisons to correct for, even if there are fewer questions
    - typical: whether claims are about typical runs. If so, and if a run failed, means are trimmed, and arms with fewer
      than five runs support no claim. If not, plain means are compared, and a diverged run counts as 100 % WER.
    - rule: rule that decides which runs failed
    - scale: scale used for decisions: points or relative
    - margin: largest difference on this scale that would not matter; None if there is no margin
    - paired: whether runs with the same seed form pairs
    - describe: whether to add the matched-pairs test and the power, which take time and do not affect outcomes
    """

    arms: Sequence[Arm]
    baseline: Arm
    questions: Sequence[Question]
    procedure: Procedure
    size: int = 0
    alpha: float = ALPHA
    typical: bool = True
    rule: FailureRule = DEFAULT
    scale: Scale = POINTS
    margin: float | None = None
    paired: bool = False
    describe: bool = True


def decide_all(family: Family, sets: Sequence[str], primary: str, metric: str) -> tuple[list[Verdict], list[str]]:
    """Return the verdicts on all test sets, the primary set first, and warnings about missing comparisons.

    The questions on one set are corrected together for multiple testing. The verdicts on the primary set are the
    answer, and the verdicts on other sets are only descriptive.
    """
    measured, warnings = [], []
    for name in sorted(sets, key=lambda name: name != primary):
        samples = measure_set(family.arms, family.baseline, name, metric)
        of_set = [
            _measure(question, family, samples, name, metric)
            for question in family.questions
            if all(arm in samples.samples for arm in question.weights)
        ]
        measured += [replace(contrast, primary=name == primary) for contrast in _decide(of_set, family)]
        warnings += [*samples.warnings, *_partner_warnings(family.questions, samples, name)]
    return measured, warnings


def _partner_warnings(questions: Sequence[Question], samples: SetSamples, set_: str) -> list[str]:
    """Return warnings about replicates, such as folds, that are left out because another arm lacks them."""
    warnings: dict[str, None] = {}
    for question in questions:
        if not samples.replicates or not all(arm in samples.models for arm in question.weights):
            continue
        common = samples.common_replicates(question.weights)
        for arm in question.weights:
            alone = [seed for seed in samples.models[arm] if seed not in common]
            if alone:
                lacking = f"{set_}: seed {', '.join(alone)} of {arm} has no partner: compared on"
                warnings[f"{lacking} {len(common)} common seeds of {' and '.join(question.weights)}"] = None
    return list(warnings)


def _measure(question: Question, family: Family, samples: SetSamples, name: str, metric: str) -> Verdict:
    """Measure the difference for a question. The outcome stays "undecided" until `_decide` sets it."""
    # a run that both arms share is counted only for the baseline
    arms, few = count_once(question.weights, family.arms, paired=family.paired)
    if arms is not family.arms:
        baseline = next(arm for arm in arms if arm.name == family.baseline.name)
        samples = measure_set(arms, baseline, name, metric)
    terms = _select_samples(question, samples)
    arms = [arm for arm in arms if arm.name in terms]
    # if each seed has its own test speakers, a high rate may be due to them, so only diverged runs count as failed
    rule = DIVERGED if samples.replicates and family.rule.kind == "median" else family.rule
    failed = {arm.name: len(rule.failed(arm, name, metric)) for arm in arms}
    paired = family.paired or _are_paired(question, samples, terms)
    trimmed, no_claim = (False, "") if paired else _decide_trimming(terms, failed, family)
    estimates = {name: _estimate(question, terms, samples, scale, paired, trimmed) for name, scale in SCALES.items()}
    estimate = estimates[family.scale.name]
    noiseless = _noise_reason(estimate, terms)
    used = {arm: kept_runs(sample) if trimmed else sample for arm, sample in terms.items()}
    sides = [_mean_of_side(question, used, sign) for sign in (1, -1)]
    pairs = _test_pairs(question, samples, metric) if family.describe else math.nan
    return Verdict(
        question=question,
        set=name,
        metric=metric,
        primary=False,
        rate=sides[0],
        baseline_rate=sides[1],
        seeds={arm.name: len(terms[arm.name].rates) for arm in arms},
        failed=failed,
        diverged={arm.name: len(arm.diverged) for arm in arms},
        difference=sides[0] - sides[1],
        outcome="undecided",
        estimate=None if noiseless else estimate,
        other=None if noiseless else estimates["relative" if family.scale is POINTS else "points"],
        reason=_pruning_reason(arms) or few or no_claim or noiseless,
        procedure=family.procedure,
        margin=family.margin,
        superiority=_measure_superiority(question, terms),
        alone=all(samples.models.get(arm) == [ONE_SYSTEM] for arm in terms),
        rule=rule,
        p_pairs=pairs,
        p_pairs_holm=pairs,
    )


def _select_samples(question: Question, samples: SetSamples) -> dict[str, Sample]:
    """Return the sample of each arm in a question. If all arms share two or more replicates, use only these."""
    terms = {arm: samples.samples[arm] for arm in question.weights}
    common = samples.common_replicates(question.weights)
    if not samples.replicates or len(common) < 2:
        return terms
    rows = {arm: np.array([samples.models[arm].index(seed) for seed in common]) for arm in terms}
    return {arm: sample.of_runs(rows[arm]) for arm, sample in terms.items()}


def _decide_trimming(terms: Mapping[str, Sample], failed: Mapping[str, int], family: Family) -> tuple[bool, str]:
    """Return whether to trim the means, and the reason why failed runs prevent a claim about typical runs, or ""."""
    if not family.typical or not any(failed.values()):
        return False, ""
    if min(len(sample.rates) for sample in terms.values()) >= FEWEST_TRIMMED:
        return True, ""
    named = " and ".join(f"{count} of {len(terms[arm].rates)} runs of {arm}" for arm, count in failed.items() if count)
    return False, f"{named} failed, and fewer than {FEWEST_TRIMMED} runs per arm do not show what a typical run does"


def _measure_superiority(question: Question, terms: Mapping[str, Sample]) -> float | None:
    """Return the share of pairs of runs in which the arm beats the baseline (ties: 1/2); None for crossed factors."""
    if question.kind != "arm":
        return None
    ours, base = (terms[arm].rates for arm in question.weights)
    return float(np.mean((ours[:, None] < base) + 0.5 * (ours[:, None] == base)))


def _mean_of_side(question: Question, terms: Mapping[str, Sample], sign: int) -> float:
    """Return the weighted mean rate of the arms whose weights have the given sign, 1 or −1."""
    return sum(
        abs(weight) * float(terms[arm].rates.mean()) for arm, weight in question.weights.items() if sign * weight > 0
    )


def _pruning_reason(arms: Sequence[Arm]) -> str:
    """Return the reason why pruned runs prevent a verdict, or "" if no run was pruned."""
    for arm in arms:
        pruned = sum(run.state == "pruned" for run in arm.absent)
        if pruned:
            runs = f"{pruned} of {len(arm.results) + len(arm.absent)} runs of {arm.name}"
            return f"{runs} were pruned because of their results, so the others are not a fair sample"
    return ""


def _estimate(
    question: Question, terms: Mapping[str, Sample], samples: SetSamples, scale: Scale, paired: bool, trimmed: bool
) -> Estimate | None:
    weighted = [(question.weights[arm], sample) for arm, sample in terms.items()]
    if paired:
        return paired_estimate(weighted, replicates=samples.replicates, overlap=samples.overlap, scale=scale)
    apart = any(arm in samples.apart for arm in terms)
    return contrast_estimate(weighted, trimmed=trimmed, own_speakers=apart, scale=scale)


def _noise_reason(estimate: Estimate | None, terms: Mapping[str, Sample]) -> str:
    """Return the reason why the noise of an estimate is unknown, or "" if the noise is known."""
    if estimate is None:
        lone = [arm for arm, sample in terms.items() if len(sample.rates) < 2]
        if not lone:
            return "a rate is 0, so the relative difference is undefined"
        which = "per arm" if len(lone) == len(terms) else f"of {' and '.join(lone)}"
        return f"with one seed {which} the variation between seeds is unknown"
    if all(sample.errors is None and not sample.grain and not sample.rates.std() for sample in terms.values()):
        return "the seeds' rates are equal and there are no utterances, so the variation between seeds is unknown"
    if not math.isfinite(estimate.standard_error) or not math.isfinite(estimate.value):
        return "the standard error cannot be computed"
    return ""


def _are_paired(question: Question, samples: SetSamples, terms: Mapping[str, Sample]) -> bool:
    """Return whether the arms can be compared in pairs, because they share trained models or replicates."""
    if samples.replicates:
        return len(next(iter(terms.values())).rates) == len(samples.common_replicates(question.weights))
    first, *others = (samples.models[name] for name in question.weights)
    return all(other == first for other in others) and all(first) and len(first) == len(set(first))


def _decide(measured: Sequence[Verdict], family: Family) -> list[Verdict]:
    """Decide all questions that have enough evidence, with Holm's correction for multiple testing."""
    open_ = [contrast for contrast in measured if contrast.estimate is not None and not contrast.reason]
    ps = [family.procedure.p(contrast.estimate) for contrast in open_ if contrast.estimate is not None]
    size = max(1, len(ps), family.size)
    decisions = iter(zip(ps, holm_decisions([*ps, *[1.0] * (size - len(ps))], family.alpha), strict=False))
    decided = []
    for contrast, p_pairs_holm in zip(measured, _correct_pairs(measured), strict=True):
        held = replace(contrast, p_pairs_holm=p_pairs_holm, family=size)
        if contrast.reason or contrast.estimate is None:
            decided.append(held)
            continue
        p, decision = next(decisions)
        by_scale = {
            each.scale.name: _interval(each, family.procedure, decision.level)
            for each in (contrast.estimate, contrast.other)
            if each is not None
        }
        in_points, relative = by_scale.get("points"), by_scale.get("relative")
        if relative and in_points and contrast.scale is POINTS and math.isinf(in_points.low):
            relative = Range(relative.value, -math.inf, math.inf)  # the interval in points decides, and is infinite
        few = _infinity_reason(contrast, contrast.estimate, by_scale[family.scale.name], family.procedure)
        shown = replace(
            held,
            outcome="undecided" if few else _find_outcome(contrast, contrast.estimate, family, decision.rejected, size),
            reason=few,
            p=p,
            p_adjusted=decision.p_adjusted,
            level=decision.level,
            low=None if in_points is None else in_points.low,
            high=None if in_points is None else in_points.high,
            relative=relative,
        )
        if family.describe:
            shown = replace(
                shown,
                detectable=detectable_range(contrast.estimate, decision.level, family.procedure),
                levers={size: levers(size, contrast.estimate, decision.level) for size in DIFFERENCES},
                repeated=_repetition_chance(shown, contrast.estimate, decision.level, family),
            )
        decided.append(shown)
    return decided


def _infinity_reason(contrast: Verdict, estimate: Estimate, interval: Range, procedure: Procedure) -> str:
    """Return the reason why an interval is infinite, or "" if it is finite."""
    if math.isfinite(interval.low):
        return ""
    if not estimate.standard_error:
        return "the results vary neither between seeds nor between speakers, so no interval can be given"
    runs = f"{' and '.join(map(str, sorted(set(contrast.seeds.values()))))} seeds per arm"
    if estimate.paired and estimate.models == 1:
        runs = f"{estimate.speakers} {estimate.unit}"
    return f"{runs} are too few for an interval{' that holds however often one looks' * (procedure is ANYTIME)}"


def _interval(estimate: Estimate, procedure: Procedure, level: float) -> Range:
    half = procedure.half_width(estimate, level)
    return Range(estimate.value, estimate.value - half, estimate.value + half)


def _repetition_chance(contrast: Verdict, estimate: Estimate, level: float, family: Family) -> float | None:
    """Return the chance that as many new runs would give the same verdict; None if it cannot be computed."""
    if contrast.low is not None and math.isinf(contrast.low):
        return None
    chances = repetition(estimate, level, family.margin, equal_level(family.alpha, contrast.family), family.procedure)
    if chances is None or contrast.outcome == "not learned":
        return None
    if contrast.outcome in SHOWN:
        return chances.above if estimate.value > 0 else chances.below
    if contrast.outcome in EQUIVALENT:
        return chances.equal
    return 1 - chances.above - chances.below - chances.equal


def _find_outcome(contrast: Verdict, estimate: Estimate, family: Family, shown: bool, size: int) -> Outcome:
    sides = [arm for arm in family.arms if arm.name in contrast.question.weights]
    if contrast.metric == "wer" and not any(has_learned(arm, contrast.set) for arm in sides):
        return "not learned"
    if shown:
        if contrast.question.kind == "interaction":
            return "interaction shown"
        return "worse" if estimate.value > 0 else "better"
    equal = _interval(estimate, family.procedure, equal_level(family.alpha, size))
    if family.margin is not None and -family.margin < equal.low and equal.high < family.margin:
        return equivalence(contrast)
    return "no interaction shown" if contrast.question.kind == "interaction" else "not shown"


def equivalence(contrast: Verdict) -> Outcome:
    """Return the outcome for equivalence within the margin. With trimmed means, it is only about typical runs."""
    about_typical = contrast.estimate is not None and contrast.estimate.trimmed
    return "typical runs equivalent" if about_typical else "equivalent"


def _correct_pairs(measured: Sequence[Verdict]) -> list[float]:
    """Return the p-values of the matched-pairs test after Holm's correction, or unchanged if one of them is NaN."""
    ps = [contrast.p_pairs for contrast in measured]
    return ps if any(map(math.isnan, ps)) else [decision.p_adjusted for decision in holm_decisions(ps)]


def _test_pairs(question: Question, samples: SetSamples, metric: str) -> float:
    """Return the p-value of the matched-pairs test (MAPSSWE); NaN unless two arms with transcripts are compared.

    For character error rates, each utterance is one segment.
    """
    if question.kind != "arm" or not all(samples.hypotheses.get(arm) for arm in question.weights):
        return math.nan
    own, base = question.weights
    if metric != "wer":
        errors = [samples.samples[name].errors for name in (own, base)]
        assert errors[0] is not None
        assert errors[1] is not None
        return matched_pairs((errors[0].mean(axis=0) - errors[1].mean(axis=0)).tolist()).p
    segments: list[float] = []
    for index, text in enumerate(samples.references):
        ours = [error_places(text, hypotheses[index]) for hypotheses in samples.hypotheses[own]]
        theirs = [error_places(text, hypotheses[index]) for hypotheses in samples.hypotheses[base]]
        segments += segment_differences(ours, theirs)
    return matched_pairs(segments).p
