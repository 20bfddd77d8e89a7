"""Every question measured on every test set, and decided."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.contrast import ALPHA, NOT_LEARNED, Contrast, Outcome, Question
from asr_ablations.comparison.samples import SetSamples, measure_set
from asr_ablations.statistics.estimate import Estimate, contrast_estimate, paired_estimate, weighted
from asr_ablations.statistics.mapsswe import error_places, matched_pairs, segment_differences
from asr_ablations.statistics.multiple_testing import holm_decisions
from asr_ablations.statistics.power import Procedure, found_in_four_of_five, levers
from asr_ablations.statistics.sample import Sample

TRIMMED_FROM = 5
"""Seeds an arm from which Yuen's trimmed test is used where a run diverged; it drops one at each end of five."""
DIFFERENCES = (0.005, 0.01, 0.02)
"""True differences for which the needed seeds and speakers are listed, as fractions."""


@dataclass(frozen=True)
class Family:
    """The contrasts that are decided together, at a rate `alpha` of false claims.

    size: comparisons that are corrected for at least, such as those that could have been chosen instead. robust:
    trimmed means from five runs on, whether a run diverged or not. paired: runs of a seed are pairs. describe: with
    what decides nothing and takes time: matched pairs, and what such runs would find.
    """

    arms: Sequence[Arm]
    baseline: Arm
    questions: Sequence[Question]
    procedure: Procedure
    size: int = 0
    alpha: float = ALPHA
    robust: bool = False
    paired: bool = False
    describe: bool = True


def contrasts(family: Family, sets: Sequence[str], primary: str, metric: str) -> tuple[list[Contrast], list[str]]:
    """All questions on all sets, the primary set first, and warnings about what could not be compared.

    The questions on a set are one family, corrected together. The primary set's are the answer; those on other sets
    describe, each set for itself.
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
        warnings += samples.warnings
    return measured, warnings


def _measure(question: Question, family: Family, samples: SetSamples, name: str, metric: str) -> Contrast:
    """The contrast, not decided yet: `outcome` is undecided, with the reason where nothing can decide."""
    terms = {arm: samples.samples[arm] for arm in question.weights}
    arms = [arm for arm in family.arms if arm.name in terms]
    estimate, reason = _estimate(question, family, samples)
    sides = [_side(question, terms, sign) for sign in (1, -1)]
    pairs = _pairs(question, samples, metric) if family.describe else math.nan
    return Contrast(
        question=question,
        set=name,
        metric=metric,
        primary=False,
        arm_mean=sides[0],
        baseline_mean=sides[1],
        seeds={arm.name: len(samples.samples[arm.name].rates) for arm in arms},
        diverged={arm.name: len(arm.diverged) for arm in arms},
        difference=sides[0] - sides[1] if estimate is None else estimate.value,
        outcome="undecided",
        estimate=estimate,
        reason=_refusal(arms) or reason,
        procedure=family.procedure.name,
        p_pairs=pairs,
        p_pairs_holm=pairs,
    )


def _side(question: Question, terms: Mapping[str, Sample], sign: int) -> float:
    """The weighted mean of the rates on one side of a question."""
    return sum(
        abs(weight) * float(terms[arm].rates.mean()) for arm, weight in question.weights.items() if sign * weight > 0
    )


def _refusal(arms: Sequence[Arm]) -> str:
    """The reasons why runs are no evidence; empty if they are evidence."""
    for arm in arms:
        pruned = sum(run.state == "pruned" for run in arm.absent)
        if pruned:
            runs = f"{pruned} of {len(arm.results) + len(arm.absent)} runs of {arm.name}"
            return f"{runs} were pruned for their results, so those that are left are no fair sample"
    return ""


def _estimate(question: Question, family: Family, samples: SetSamples) -> tuple[Estimate | None, str]:
    """The difference with its noise, or the reason for its absence."""
    terms = [(weight, samples.samples[name]) for name, weight in question.weights.items()]
    if family.paired or _paired(question, samples):
        sides = [[(sign * weight, sample) for weight, sample in terms if sign * weight > 0] for sign in (1, -1)]
        estimate = paired_estimate(
            weighted(sides[0]), weighted(sides[1]), replicates=samples.replicates, overlap=samples.overlap
        )
    else:
        heavy = family.robust or any(arm.diverged for arm in family.arms)
        trimmed = heavy and min(len(sample.rates) for _, sample in terms) >= TRIMMED_FROM
        apart = any(name in samples.apart for name in question.weights)
        estimate = contrast_estimate(terms, trimmed=trimmed, own_speakers=apart)
    if estimate is None:
        return None, "the noise of seeds is unknown"
    if all(sample.errors is None and not sample.grain and not sample.rates.std() for _, sample in terms):
        return None, "the seeds' rates are equal and there are no utterances, so the noise is unknown"
    if not math.isfinite(estimate.standard_error) or not math.isfinite(estimate.value):
        return None, "the noise cannot be computed"
    return estimate, ""


def _paired(question: Question, samples: SetSamples) -> bool:
    """True if the arms' rows are of the same trained models, or of the same replicates."""
    first, *others = (samples.models[name] for name in question.weights)
    return all(other == first for other in others) and all(first) and len(first) == len(set(first))


def _decide(measured: Sequence[Contrast], family: Family) -> list[Contrast]:
    """Holm's procedure over what can be decided, and what each contrast shows."""
    open_ = [contrast for contrast in measured if contrast.estimate is not None and not contrast.reason]
    ps = [family.procedure.p(contrast.estimate) for contrast in open_ if contrast.estimate is not None]
    size = max(1, len(ps), family.size)
    decisions = iter(zip(ps, holm_decisions([*ps, *[1.0] * (size - len(ps))], family.alpha), strict=False))
    decided = []
    for contrast, p_pairs_holm in zip(measured, _corrected_pairs(measured), strict=True):
        held = replace(contrast, p_pairs_holm=p_pairs_holm, family=size)
        if contrast.reason or contrast.estimate is None:
            decided.append(held)
            continue
        p, decision = next(decisions)
        half = family.procedure.half_width(contrast.estimate, decision.level)
        shown = replace(
            held,
            outcome=_outcome(contrast, family, decision.rejected),
            p=p,
            p_adjusted=decision.p_adjusted,
            level=decision.level,
            low=contrast.estimate.value - half,
            high=contrast.estimate.value + half,
        )
        decided.append(_described(shown, contrast.estimate, decision.level, family) if family.describe else shown)
    return decided


def _described(contrast: Contrast, estimate: Estimate, level: float, family: Family) -> Contrast:
    """With what such runs would find, and what would find more."""
    return replace(
        contrast,
        detectable=found_in_four_of_five(estimate, level, family.procedure),
        levers={size: levers(size, estimate, level) for size in DIFFERENCES},
    )


def _outcome(contrast: Contrast, family: Family, shown: bool) -> Outcome:
    sides = [arm for arm in family.arms if arm.name in contrast.question.weights]
    if contrast.metric == "wer" and not any(has_learned(arm, contrast.set) for arm in sides):
        return "not learned"
    if contrast.question.kind == "interaction":
        return "interaction shown" if shown else "no interaction shown"
    if not shown:
        return "no difference shown"
    return "worse" if contrast.difference > 0 else "better"


def has_learned(arm: Arm, set_: str) -> bool:
    """True if any run of the arm gets a tenth of the words right."""
    rates = [run.value(set_, "wer") for run in arm.runs]
    return any(rate is not None and rate <= NOT_LEARNED for rate in rates)


def _corrected_pairs(measured: Sequence[Contrast]) -> list[float]:
    """Holm's correction of the matched pairs over the arms of a set; none where a p is nan."""
    ps = [contrast.p_pairs for contrast in measured]
    return ps if any(map(math.isnan, ps)) else [decision.p_adjusted for decision in holm_decisions(ps)]


def _pairs(question: Question, samples: SetSamples, metric: str) -> float:
    """p of MAPSSWE for words; for characters the pairs are whole utterances; nan for other questions than two arms."""
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
