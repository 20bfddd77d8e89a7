"""The contrasts of a comparison as flat rows, as comparison.json, the page and W&B have them."""

from asr_ablations.comparison.contrast import Verdict
from asr_ablations.comparison.metrics import find_metric
from asr_ablations.tools.files import Json


def contrast_row(verdict: Verdict) -> Json:
    """A row per contrast, rates as fractions. low, high: the verdict's interval, null where there is none."""
    contrast, estimate = verdict.contrast, verdict.contrast.estimate
    seeds, speakers = (None, None) if estimate is None else (estimate.over_seeds, estimate.over_speakers)
    return {
        "arm": contrast.arm,
        "baseline": contrast.baseline,
        "kind": contrast.question.kind,
        "set": contrast.set,
        "metric": contrast.metric,
        "primary": contrast.primary,
        "baseline_mean": contrast.baseline_mean,
        "arm_mean": contrast.arm_mean,
        "difference": contrast.difference,
        "low": contrast.low,
        "high": contrast.high,
        "level": contrast.level,
        "outcome": contrast.outcome,
        "verdict": verdict.sentence,
        "procedure": contrast.procedure,
        "p": contrast.p,
        "p_adjusted": contrast.p_adjusted,
        "family": contrast.family,
        "seeds": contrast.seeds,
        "diverged": contrast.diverged,
        "degrees": None if estimate is None else estimate.degrees,
        "standard_error": None if estimate is None else estimate.standard_error,
        "error_over_seeds": None if seeds is None else seeds.standard_error,
        "error_over_speakers": None if speakers is None else speakers.standard_error,
        "speakers": None if estimate is None else estimate.speakers,
        "paired": None if estimate is None else estimate.paired,
        "trimmed": None if estimate is None else estimate.trimmed,
        "detectable": None if contrast.detectable is None else contrast.detectable.value,
        "p_pairs": contrast.p_pairs,
        "p_pairs_holm": contrast.p_pairs_holm,
    }


def interval_text(verdict: Verdict) -> str:
    """The verdict's interval in the unit of its metric; NA where there is none."""
    metric, contrast = find_metric(verdict.contrast.metric), verdict.contrast
    if contrast.low is None or contrast.high is None:
        return "NA"
    ends = [metric.text(end, sign=True) for end in (contrast.low, contrast.high)]
    return f"{ends[0]} to {ends[1]}"
