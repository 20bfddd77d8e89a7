"""The verdict on a contrast, in words that a researcher would sign."""

import math
from collections.abc import Sequence

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.contrast import NOT_LEARNED, SHOWN, AtLook, Contrast, Verdict
from asr_ablations.comparison.contrasts import has_learned
from asr_ablations.comparison.metrics import Metric, find_metric
from asr_ablations.statistics.distributions import fisher
from asr_ablations.statistics.estimate import UTTERANCES
from asr_ablations.statistics.sample import SPEAKERS


def verdict(contrast: Contrast, arms: Sequence[Arm], noise: str) -> Verdict:
    """The verdict. arms: all of the comparison; noise: what is known of the noise of seeds, for those that have one
    seed.
    """
    sides = [arm for arm in arms if arm.name in contrast.question.weights]
    parts = [_finding(contrast, noise), *_runs(contrast, sides)]
    return Verdict(contrast, "; ".join(part for part in parts if part))


def _finding(contrast: Contrast, noise: str) -> str:
    metric = find_metric(contrast.metric)
    if contrast.outcome == "not learned":
        names = " nor ".join(dict.fromkeys(contrast.question.weights))
        return f"no verdict on {contrast.set}: neither {names} has learned (WER above {100 * NOT_LEARNED:.0f} %)"
    if contrast.estimate is None or contrast.p is None or contrast.p_adjusted is None:
        return _undecided(contrast, metric, noise)
    if contrast.look is not None and contrast.outcome not in SHOWN:
        return _without_difference(contrast, contrast.look, metric)
    evidence = f"{_interval(contrast, metric)}; {_p(contrast)}; {_extent(contrast)}"
    size = _size(contrast, metric)
    if contrast.outcome in ("worse", "better"):
        return f"{_sides(contrast, f'is {contrast.outcome} than')} on {contrast.set}: {size} ({evidence})"
    if contrast.question.kind == "interaction":
        shown = "depends" if contrast.outcome == "interaction shown" else "is not shown to depend"
        effect = f"the effect of {contrast.arm.partition(' (')[0]} against {contrast.baseline}"
        finding = (
            f"{effect} {shown} on the other factor on {contrast.set} ({contrast.question.within}): {size} ({evidence})"
        )
    else:
        finding = f"no difference shown: {_sides(contrast, 'and')} on {contrast.set}, {size} ({evidence})"
    return finding if contrast.outcome == "interaction shown" else f"{finding}{_power(contrast, metric)}"


def _without_difference(contrast: Contrast, look: AtLook, metric: Metric) -> str:
    """The sentence of a planned look that shows no difference: equivalent, undecided, or still open."""
    margin = f"± {metric.text(look.margin)} {metric.amount}"
    where = f"{_sides(contrast, 'and')} on {contrast.set}"
    if contrast.outcome == "equivalent":
        within = f"{metric.text(look.low, sign=True)} to {metric.text(look.high, sign=True)}"
        evidence = f"{within}; look {look.number} of {look.of}; {_extent(contrast)}"
        return f"equivalent within {margin}: {where}, {_size(contrast, metric)} ({evidence})"
    evidence = f"{_interval(contrast, metric)}; look {look.number} of {look.of}; {_extent(contrast)}"
    finding = f"{contrast.outcome}: {where}, {_size(contrast, metric)} ({evidence})"
    if contrast.outcome == "open":
        return f"{finding}, neither different nor equivalent within {margin} so far"
    why = f"neither different nor equivalent within {margin} after {look.runs} runs of each arm"
    if look.number < look.of:
        why = f"{why}, and given up: the chance of a verdict by {look.most} runs is {100 * (look.chance or 0):.0f} %"
    return f"{finding}, {why}; {_lever(contrast, look, margin)}"


def _lever(contrast: Contrast, look: AtLook, margin: str) -> str:
    """The runs that would decide a question that the plan leaves open."""
    needed = look.levers
    if needed is None:
        return f"no noise is known, so nothing tells what would; {contrast.reason}"
    units = f"test {units_text(contrast)}"
    ways = {
        "seeds": f"{margin} would take about {needed.seeds} seeds an arm; {units} are not the limit",
        "speakers": f"{margin} would take about {needed.speakers} {units}; seeds are not the limit",
        "neither": f"{margin} is out of reach of more seeds alone and of more {units} alone: widen the margin",
        "none": f"so many runs mostly decide within {margin}: the true difference is probably near it",
    }
    return ways[needed.cheaper]


def units_text(contrast: Contrast) -> str:
    """What the utterances of a test set were drawn with: speakers, or voices that speakers share."""
    estimate = contrast.estimate
    return SPEAKERS if estimate is None or estimate.unit == UTTERANCES else estimate.unit


def _size(contrast: Contrast, metric: Metric) -> str:
    return f"{metric.text(contrast.difference, sign=True)} {metric.amount}"


def _sides(contrast: Contrast, verb: str) -> str:
    question = contrast.question
    return f"{question.arm} {verb} {question.baseline}{f' {question.within}' if question.within else ''}"


def _undecided(contrast: Contrast, metric: Metric, noise: str) -> str:
    size = f"{_size(contrast, metric)} on {contrast.set}"
    if not math.isnan(contrast.p_pairs):
        size = f"{size} (matched pairs {_p_text(contrast.p_pairs_holm)}, of these models alone)"
    finding = f"undecided: {_sides(contrast, 'against')} {size}, but {contrast.reason}"
    return f"{finding}; {noise}" if noise and min(contrast.seeds.values()) < 2 else finding


def _interval(contrast: Contrast, metric: Metric) -> str:
    """The interval at the level of the verdict."""
    assert contrast.low is not None
    assert contrast.high is not None
    if not math.isfinite(contrast.low) or not math.isfinite(contrast.high):
        return "no finite interval yet"
    return f"{metric.text(contrast.low, sign=True)} to {metric.text(contrast.high, sign=True)}"


def _p(contrast: Contrast) -> str:
    assert contrast.p_adjusted is not None
    corrected = f" after Holm's correction over {contrast.family}" if contrast.family > 1 else ""
    looks = ", however often one looks" if contrast.procedure == "anytime" else ""
    if contrast.look is not None:
        looks = f" at look {contrast.look.number} of {contrast.look.of}"
    return f"{_p_text(contrast.p_adjusted)}{corrected}{looks}"


def _extent(contrast: Contrast) -> str:
    """The number of models and units behind the verdict."""
    estimate = contrast.estimate
    assert estimate is not None
    counts = sorted(set(contrast.seeds.values()))
    if estimate.paired:
        models = (
            "one trained model, of which alone it speaks"
            if estimate.models == 1
            else f"{estimate.models} models in pairs"
        )
    else:
        models = f"{' and '.join(map(str, counts))} seed{'s' if counts[-1] > 1 else ''}"
    trimmed = ", trimmed means" if estimate.trimmed else ""
    if not estimate.speakers:
        speakers = (
            "speakers left out, since there are no utterances"
            if not estimate.paired
            else "each with speakers of its own"
        )
    elif estimate.unit == UTTERANCES:
        speakers = "one speaker, whose utterances stand in for speakers"
    else:
        speakers = f"{estimate.speakers} {estimate.unit}"
    return f"{models}{trimmed}, {speakers}"


def _power(contrast: Contrast, metric: Metric) -> str:
    """The difference that these runs would have found."""
    found = contrast.detectable
    if found is None or not math.isfinite(found.value):
        return "; nothing could be found with so few runs"
    size = metric.text(found.value)
    range_ = f"{metric.text(found.low)} to {metric.text(found.high)}"
    return f"; such runs find a true difference of {size} ({range_}) in four cases of five"


def _runs(contrast: Contrast, sides: Sequence[Arm]) -> list[str]:
    """The runs that a reader has to know of: diverged, unlearned and absent ones."""
    notes = []
    for arm in sides:
        if arm.diverged:
            counted = " and count as 100 % WER" if contrast.metric == "wer" else ""
            notes.append(f"{len(arm.diverged)} of {len(arm.results)} runs of {arm.name} diverged{counted}")
        poor = [run for run in arm.runs if not has_learned(Arm(arm.name, [run]), contrast.set)]
        if contrast.metric == "wer" and poor and contrast.outcome != "not learned":
            notes.append(f"{len(poor)} of {len(arm.results)} runs of {arm.name} have not learned")
        states = [run.state for run in arm.absent]
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        if counts:
            notes.append(f"{arm.name} lacks {len(states)} of {len(states) + len(arm.results)} runs ({counts})")
    if contrast.question.kind == "arm" and any(arm.diverged for arm in sides) and len(sides) == 2:
        (first, second) = sides
        p = fisher(len(first.diverged), len(first.results), len(second.diverged), len(second.results))
        notes.append(f"rates of divergence: Fisher's exact test {_p_text(p)}")
    return notes


def _p_text(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
