"""The verdicts of a comparison as flat rows, as comparison.json, the page and W&B have them."""

import math

from asr_ablations.comparison.result import Contrast, Verdict
from asr_ablations.tools.files import Json


def contrast_row(verdict: Verdict) -> Json:
    """A row per contrast. low, high: the 95 % interval over speakers alone, nan without utterances; half_width: of the
    verdict's own interval.
    """
    contrast = verdict.contrast
    low, high = (math.nan, math.nan) if contrast.speakers is None else (contrast.speakers.low, contrast.speakers.high)
    return {
        "arm": contrast.arm,
        "set": contrast.set,
        "metric": contrast.metric,
        "baseline_mean": contrast.baseline_mean,
        "arm_mean": contrast.arm_mean,
        "difference": contrast.difference,
        "low": low,
        "high": high,
        "p_pairs": contrast.p_pairs,
        "p_pairs_holm": contrast.p_pairs_holm,
        "p_seeds": contrast.p_seeds,
        "detectable": contrast.detectable,
        "verdict": verdict.sentence,
        "p": contrast.p,
        "p_holm": contrast.p_holm,
        "half_width": None if contrast.interval is None else contrast.interval.half_width,
        "seeds": contrast.seeds,
        "p_pooled": contrast.p_pooled,
    }


def drawn_interval(contrast: Contrast) -> tuple[float, float]:
    """The ends of the interval that a report draws: the verdict's own, with a single seed that over speakers alone, and
    nan without either.
    """
    interval = contrast.interval or contrast.speakers
    return (math.nan, math.nan) if interval is None else (interval.low, interval.high)
