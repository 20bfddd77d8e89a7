"""Put verdicts into words: the finding with its size, followed by notes on the runs (see docs/statistics.md)."""

import math
from collections.abc import Sequence

from asr_verdicts.arms import NOT_LEARNED, Arm, has_learned, shared_start, training_end
from asr_verdicts.failures import counts_text
from asr_verdicts.identical_arms import did_nothing
from asr_verdicts.metrics import Metric, find_metric, format_p
from asr_verdicts.statistics.distributions import fisher
from asr_verdicts.statistics.estimate import ONE_SPEAKER, UNKNOWN, Estimate
from asr_verdicts.statistics.procedures import ALPHA
from asr_verdicts.statistics.sample import SPEAKERS
from asr_verdicts.verdict import EQUIVALENT, SHOWN, AtLook, Verdict

# if the effective number of speakers is below this share, the sentence states it, because the interval is too narrow
FEW = 0.4


def write_sentence(verdict: Verdict, arms: Sequence[Arm], noise: str) -> str:
    """Put a verdict into sentences, including notes on its runs.

    - arms: all arms of the comparison
    - noise: a sentence on the variation between seeds in earlier sweeps, used if an arm has only one seed
    """
    if verdict.question.kind == "arm" and did_nothing(verdict.question, arms):
        both = f"{verdict.question.arm} and {verdict.question.baseline}"
        return f"{both} have identical hypotheses: they are copies, or the change did nothing."
    sentences = [*_describe_finding(verdict, noise), *notes_on_runs(verdict, arms)]
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


def _describe_finding(verdict: Verdict, noise: str) -> list[str]:
    """Describe the finding of a verdict with its size, as a list of sentences without periods."""
    metric, question = find_metric(verdict.metric), verdict.question
    if verdict.outcome == "not learned":
        names = " nor ".join(dict.fromkeys(question.weights))
        return [f"No verdict on {verdict.set}: neither {names} has learned (WER above {100 * NOT_LEARNED:.0f} %)"]
    place = f"{question.within} on {verdict.set}".strip()
    asked = f"{question.arm} against {question.baseline} {place}"
    if question.kind == "interaction":
        asked = f"the effect of {question.arm} against {question.baseline} {place}"
    if verdict.estimate is None or verdict.reason:
        return _describe_undecided(verdict, asked, metric, noise)
    size = f"{_format_size(verdict, metric)} ({_format_interval(verdict, metric)})"
    evidence = _describe_evidence(verdict, verdict.estimate)
    if question.kind == "interaction" and verdict.outcome not in (*EQUIVALENT, "open", "undecided"):
        depends = "depends" if verdict.outcome in SHOWN else "is not shown to depend"
        effect = f"The effect of {question.arm} against {question.baseline}"
        finding = f"{effect} {depends} on the other factor on {verdict.set} ({question.within}): {size}"
        return [finding, grade_text(verdict, metric) or power_text([verdict], metric), evidence]
    typical = verdict.estimate.trimmed and "typical runs of "
    if verdict.outcome in SHOWN:
        sides = f"{question.arm} is {verdict.outcome} than {question.baseline}"
        if typical:
            sides = f"Typical runs of {question.arm} are {verdict.outcome} than typical runs of {question.baseline}"
        rates = _format_rates(verdict, metric, "against")
        finding = f"{sides} {place}: {rates}, a difference of {size}"
        return [finding, grade_text(verdict, metric), evidence, scope_text(verdict)]
    both = f"{typical or ''}{question.arm} and {question.baseline}"
    measured = f"{place}: {_format_rates(verdict, metric, 'and')}, {size}"
    if verdict.outcome in EQUIVALENT:
        start = f"T{both[1:]}" if typical else both
        finding = f"{start} are equivalent within {margin_text(verdict, metric)} {measured}"
        return [finding, evidence, scope_text(verdict)]
    if verdict.look is not None:
        return [*_describe_look(verdict, verdict.look, f"{asked}, {size}", metric), evidence]
    finding = f"No difference is shown between {both} {measured}"
    return [finding, power_text([verdict], metric), evidence, scope_text(verdict)]


def _describe_undecided(verdict: Verdict, asked: str, metric: Metric, noise: str) -> list[str]:
    """Describe a question that cannot be decided, with the reason."""
    start, end = "Undecided", ""
    if verdict.look is not None:
        start = f"{'Not decided yet' if verdict.outcome == 'open' else start} after {verdict.look.runs} seeds per arm"
        end = "The sweep continues" if verdict.outcome == "open" else ""
    finding = f"{start}: {asked}, {_format_size(verdict, metric)}, but {verdict.reason}"
    return [finding, end, noise if min(verdict.seeds.values()) < 2 else ""]


def _describe_look(verdict: Verdict, look: AtLook, measured: str, metric: Metric) -> list[str]:
    """Describe the state of a planned question if neither a difference nor equivalence is shown."""
    if verdict.outcome == "open":
        return [f"Not decided yet after {look.runs} seeds per arm: {measured}", "The sweep continues"]
    finding = f"Undecided after {look.runs} seeds per arm: {measured}"
    neither = f"Neither a difference nor equivalence within {margin_text(verdict, metric)} is shown"
    chance = f"The plan gave up: the chance of a verdict by {look.most} seeds is {100 * (look.chance or 0):.0f} %"
    return [finding, neither, chance if look.number < look.of else "", lever_text(verdict)]


def lever_text(verdict: Verdict) -> str:
    """Describe how many seeds or speakers would decide a question that the plan left undecided; "" if unknown."""
    levers = None if verdict.look is None else verdict.look.levers
    if levers is None:
        return ""
    units = f"test {units_text(verdict)}"
    return {
        "seeds": f"About {levers.seeds} seeds per arm would decide",
        "speakers": f"About {levers.speakers} {units} would decide; more seeds would not",
        "neither": f"Neither more seeds nor more {units} alone would decide: the margin is too small",
        "none": "As many runs usually decide: the true difference is probably near the margin",
    }[levers.cheaper]


def _format_rates(verdict: Verdict, metric: Metric, between: str) -> str:
    """Format the rates of the arm and the baseline, joined by the word `between`."""
    unit = f" % {metric.label}" if metric.is_rate else f" {metric.unit}"
    percent = " %" if metric.is_rate else ""
    return f"{metric.text(verdict.rate)}{percent} {between} {metric.text(verdict.baseline_rate)}{unit}"


def _format_size(verdict: Verdict, metric: Metric) -> str:
    """Format the difference on the declared scale, or in points if there is no interval."""
    decided = verdict.decided
    if decided is None:
        return f"{metric.text(verdict.difference, sign=True)} {metric.amount}"
    return verdict.scale.size(decided.value, metric)


def margin_text(verdict: Verdict, metric: Metric) -> str:
    """Format the margin with its unit, such as 0.5 points."""
    assert verdict.margin is not None
    return verdict.scale.margin(verdict.margin, metric)


def _format_interval(verdict: Verdict, metric: Metric) -> str:
    """Format the interval that decided the question, with its confidence level."""
    equal = verdict.outcome in EQUIVALENT
    interval = verdict.equal_interval if equal else verdict.decided
    assert interval is not None
    percent = 100 * (1 - (2 if equal else 1) * verdict.procedure.alpha)
    return f"{percent:g} % interval {verdict.scale.interval(interval.low, interval.high, metric)}"


def _describe_evidence(verdict: Verdict, estimate: Estimate) -> str:
    """Describe the test, its p-value, and the number of comparisons, seeds and speakers, without a period."""
    tested = f"{verdict.procedure.brief}: {format_p(verdict.p_adjusted, 'p')}"
    if verdict.look is not None:
        tested = f"Look {verdict.look.number} of {verdict.look.of}"
    elif verdict.outcome in EQUIVALENT:
        tested = f"{verdict.procedure.brief}, two one-sided tests"
    family = f", corrected for {verdict.family} comparisons" if verdict.family > 1 else ""
    return f"{tested}{family}; {_format_extent(verdict, estimate)}"


def _format_extent(verdict: Verdict, estimate: Estimate) -> str:
    """Describe how many seeds (or pairs of models) and speakers an estimate is based on."""
    counts = sorted(set(verdict.seeds.values()))
    models = f"{' and '.join(map(str, counts))} seed{'s' * (counts[-1] > 1)}"
    if estimate.paired:
        models = "" if estimate.models == 1 else f"{estimate.models} models in pairs"
    return ", ".join(filter(None, [models, "trimmed means" * estimate.trimmed, speakers_text(estimate)]))


def scope_text(verdict: Verdict) -> str:
    """Return a sentence that limits the verdict to the tested models; "" if it also covers other seeds."""
    estimate = verdict.estimate
    if estimate is None or not estimate.paired or estimate.models > 1:
        return ""
    if verdict.alone:
        return "This is about these models: with one training of each, nothing is known about the methods"
    return "This is about one trained model: nothing is known about other trainings"


def units_text(verdict: Verdict) -> str:
    """Return the plural name of the test set's sampling units, such as speakers or voices."""
    estimate = verdict.estimate
    return SPEAKERS if estimate is None or estimate.unit == ONE_SPEAKER else estimate.unit


def speakers_text(estimate: Estimate) -> str:
    """Describe how many speakers, or other sampling units, an estimate is based on."""
    if not estimate.speakers:
        return "each pair with its own test set" if estimate.paired else "speakers left out: there are no utterances"
    if estimate.unit == ONE_SPEAKER:
        return "one speaker, whose utterances stand in for speakers"
    count = f"{estimate.speakers} {estimate.unit}"
    if estimate.unit in UNKNOWN:
        return f"{count}; {UNKNOWN_SPEAKERS}"
    few = estimate.effective < FEW * estimate.speakers
    return f"{count}, which count as {estimate.effective:.0f}" if few else count


UNKNOWN_SPEAKERS = "speakers unknown, so the interval is too narrow if a speaker has several"


def grade_text(verdict: Verdict, metric: Metric) -> str:
    """Describe the size of a shown difference relative to the margin; "" if there is no margin or difference."""
    if verdict.margin is None or verdict.grade is None:
        return ""
    margin = verdict.scale.margin(verdict.margin, metric)
    if verdict.immaterial:
        return f"The whole interval lies within the margin of {margin}"
    return {
        "beyond the margin": f"More than the margin of {margin}",
        "size unclear": f"It may or may not exceed the margin of {margin}",
        "less than the margin": f"Less than the margin of {margin}",
    }[verdict.grade]


def power_text(verdicts: Sequence[Verdict], metric: Metric) -> str:
    """Describe the smallest differences that the runs would probably have detected; "" if unknown."""
    sizes = [verdict.detectable.value for verdict in verdicts if verdict.detectable is not None]
    finite = [size for size in sizes if math.isfinite(size) and not (metric.is_rate and size > 1)]
    if not finite:
        return ""
    low, high = metric.about(min(finite)), metric.about(max(finite))
    if len(verdicts) == 1:
        return f"A difference of {low} {metric.amount} would probably have been detected"
    size = low if low == high else f"{low} to {high}"
    return f"Differences of {size} {metric.amount} or more would probably have been detected (power 80 %)"


def notes_on_runs(verdict: Verdict, arms: Sequence[Arm]) -> list[str]:
    """Return notes on diverged, failed and missing runs, and on test speakers in the training set."""
    sides = [arm for arm in arms if arm.name in verdict.question.weights]
    trained = dict.fromkeys(run.data.trained_on(verdict.set) for arm in sides for run in arm.runs)
    notes = [*trained, *(shared_start(arm) for arm in sides), *_describe_failures(verdict)]
    for arm in sides:
        failed, diverged, results = verdict.failed.get(arm.name, 0), len(arm.diverged), len(arm.results)
        if diverged and verdict.estimate is not None and not verdict.estimate.trimmed and verdict.metric == "wer":
            notes.append(f"{diverged} of {results} runs of {arm.name} diverged and count as 100 % WER")
        elif failed and not _asks_for_failures(verdict):
            how = "diverged" if failed == diverged else verdict.rule.text
            notes.append(f"{failed} of {results} runs of {arm.name} {how}")
        if failed and verdict.metric == "wer" and arm.runs:
            worst = max((rate for run in arm.runs if (rate := run.value(verdict.set, "wer")) is not None), default=0.0)
            notes.append(f"The worst run of {arm.name} that ended has {100 * worst:.2f} % WER")
        poor = [run for run in arm.runs if not has_learned(Arm(arm.name, [run]), verdict.set)]
        if verdict.metric == "wer" and poor and verdict.outcome != "not learned":
            notes.append(f"{len(poor)} of {results} runs of {arm.name} have not learned")
        states = [run.state for run in arm.absent]
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        if counts:
            notes.append(f"{arm.name} lacks {len(states)} of {len(states) + results} runs ({counts})")
    return notes


def training_end_notes(arms: Sequence[Arm]) -> list[str]:
    """Say of which arms the validation loss still fell, or rose again, at the end of training."""
    notes = []
    for end, text in (
        (
            "falling",
            "The validation loss still fell in the last epoch in {}: longer training may change the answer",
        ),
        ("rising", "The validation loss rose after its minimum in {}: these runs overfit"),
    ):
        counts = []
        for arm in arms:
            ends = [training_end(losses) for run in arm.runs if (losses := run.summary.validation_losses)]
            counts += [f"{ends.count(end)} of {len(ends)} runs of {arm.name}"] if end in ends else []
        if counts:
            notes.append(text.format(", ".join(counts)))
    return notes


def _asks_for_failures(verdict: Verdict) -> bool:
    """Return whether failure rates can be compared: the verdict must be about two arms with independent runs."""
    return verdict.question.kind == "arm" and verdict.estimate is not None and not verdict.estimate.paired


def _describe_failures(verdict: Verdict) -> list[str]:
    """Compare how often the runs of two arms failed or, if none failed, state how often failures are missed."""
    if not _asks_for_failures(verdict):
        return []
    counts = [(name, verdict.failed[name], verdict.seeds[name]) for name in verdict.question.weights]
    if not any(failed for _, failed, _ in counts):
        fewest = min(runs for _, _, runs in counts)
        chance = f"{100 * (1 - 0.1) ** fewest:.0f} %"  # chance that no run fails at this rate
        missing = f"No run failed, but {fewest} runs miss a failure rate of 10 % in {chance} of cases"
        return [missing] if verdict.outcome in EQUIVALENT else []
    (_, first, runs), (_, second, others) = counts
    p = fisher(first, runs, second, others)
    name = counts[0][0] if first * others >= second * runs else counts[1][0]
    diverged = all(verdict.diverged[arm] == failed for arm, failed, _ in counts)
    past, present = ("diverged", "diverges") if diverged else ("failed", "fails")
    more = f"{name} {present} more often" if p <= ALPHA else f"whether {name} {present} more often is not shown"
    rule = "" if diverged else f"; failed: {verdict.rule.text}"
    return [f"{counts_text(counts, past)}: {more} (Fisher's exact test, {format_p(p, 'p')}{rule})"]
