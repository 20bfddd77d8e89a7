"""Sections beside the main table of a comparison: contrasts, one arm over seeds, gradients, losses, search, times."""

import math

from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.one_arm import Description, descriptions
from asr_verdicts.report.section import Section
from asr_verdicts.scales import MOST_LOG
from asr_verdicts.verdict import Verdict


def contrast_row(verdict: Verdict) -> Json:
    """A row per contrast, rates as fractions. low, high: the interval in points, or null; relative: the difference as a
    share of the baseline's rate; margin: on `scale`; superiority: P(a run of the arm is better than one of the
    baseline).
    """
    contrast, estimate = verdict, verdict.estimate
    seeds, speakers = (None, None) if estimate is None else (estimate.over_seeds, estimate.over_speakers)
    return {
        "arm": contrast.arm,
        "baseline": contrast.baseline,
        "kind": contrast.question.kind,
        "set": contrast.set,
        "metric": contrast.metric,
        "primary": contrast.primary,
        "baseline_mean": contrast.baseline_rate,
        "arm_mean": contrast.rate,
        "difference": contrast.difference,
        "low": contrast.low,
        "high": contrast.high,
        "level": contrast.level,
        "relative": None if contrast.relative is None else math.expm1(contrast.relative.value),
        "relative_low": None if contrast.relative is None else _ratio(contrast.relative.low),
        "relative_high": None if contrast.relative is None else _ratio(contrast.relative.high),
        "scale": contrast.scale.name,
        "margin": contrast.margin,
        "grade": contrast.grade,
        "superiority": contrast.superiority,
        "outcome": contrast.outcome,
        "verdict": verdict.sentence,
        "procedure": contrast.procedure.name,
        "p": contrast.p,
        "p_adjusted": contrast.p_adjusted,
        "family": contrast.family,
        "seeds": contrast.seeds,
        "failed": contrast.failed,
        "diverged": contrast.diverged,
        "degrees": None if estimate is None else estimate.degrees,
        "standard_error": None if estimate is None else estimate.standard_error,
        "error_over_seeds": None if seeds is None else seeds.standard_error,
        "error_over_speakers": None if speakers is None else speakers.standard_error,
        "speakers": None if estimate is None else estimate.speakers,
        "effective_speakers": None if estimate is None else estimate.effective,
        "unit": None if estimate is None else estimate.unit,
        "paired": None if estimate is None else estimate.paired,
        "trimmed": None if estimate is None else estimate.trimmed,
        "detectable": None if contrast.detectable is None else contrast.detectable.value,
        "repeated": contrast.repeated,
        "p_pairs": contrast.p_pairs,
        "p_pairs_holm": contrast.p_pairs_holm,
    }


def _ratio(logarithm: float) -> float | None:
    return math.expm1(logarithm) if logarithm < MOST_LOG else None


def description_section(comparison: Comparison) -> Section:
    """Mean, deviation with its interval, best and worst; empty where arms are compared."""
    rows = [_row(description) for description in descriptions(comparison)]
    head = ["metric", "set", "n", "mean", "sd", "sd, 95 %", "best", "worst"]
    line = (
        "The last weights of runs that differ in the seed alone. Rates in percent, losses in nats. Nothing but chance "
        "differs between two such runs: a difference between single runs of other arms means little below twice the sd."
    )
    lost = [f"{len(arm.diverged)} of {len(arm.results)} runs diverged." for arm in comparison.arms if arm.diverged]
    return Section("One arm over seeds", head, rows, [line, *lost] if rows else [])


def _row(description: Description) -> list[str]:
    metric, spread = description.metric, description.spread
    deviation = spread.deviation
    return [
        metric.heading,
        description.set,
        str(spread.runs),
        metric.text(spread.mean),
        metric.text(None if deviation is None else deviation.value),
        "NA" if deviation is None else f"{metric.text(deviation.low)} to {metric.text(deviation.high)}",
        metric.text(spread.best),
        metric.text(spread.worst),
    ]
