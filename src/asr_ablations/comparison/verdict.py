"""The verdict on a contrast, in words that a researcher would sign."""

import math

from asr_ablations.comparison.metrics import METRICS
from asr_ablations.comparison.result import ALPHA, Contrast, Outcome, Verdict

SEED_NOISE = "on LibriSpeech's test-clean it is 0.06 to 0.17 WER (AlgoPerf's logs)"


def verdict(contrast: Contrast) -> Verdict:
    """The verdict; with fewer than two seeds per arm it says nothing beyond these utterances."""
    return Verdict(contrast, _outcome(contrast), _sentence(contrast))


def _outcome(contrast: Contrast) -> Outcome:
    """The outcome rests on the contrast's own p, with seeds and speakers in it, after correction."""
    if contrast.p_holm is None:
        return "undecided"
    return _sign(contrast) if contrast.p_holm <= ALPHA else "no difference shown"


def _sign(contrast: Contrast) -> Outcome:
    return "worse" if contrast.difference > 0 else "better"


def _sentence(contrast: Contrast) -> str:
    """Rates in percent, losses in nats."""
    metric = METRICS[contrast.metric]
    if contrast.interval is None or contrast.p_holm is None:
        return _single_seed(contrast)
    size = f"{metric.text(abs(contrast.difference))} ± {metric.text(contrast.interval.half_width)} {metric.amount}"
    corrected = f" after Holm's correction over {contrast.family}" if contrast.family > 1 else ""
    size, evidence = f"{size} {_sign(contrast)}", f"{_p(contrast.p_holm)}{corrected}; {_seeds(contrast)}"
    if contrast.p_holm <= ALPHA:
        return f"{contrast.arm} is {size} than {contrast.baseline} on {contrast.set} ({evidence})"
    pair = f"{contrast.arm} and {contrast.baseline} on {contrast.set}"
    sentence = f"no difference shown between {pair} ({size}, {evidence})"
    if contrast.detectable is None:
        return sentence
    return f"{sentence}; with {_seeds(contrast)} anything under {metric.text(contrast.detectable)} would be missed"


def _single_seed(contrast: Contrast) -> str:
    metric = METRICS[contrast.metric]
    size = f"{metric.text(abs(contrast.difference))} {metric.amount} {_sign(contrast)}"
    extent, pairs = f"on {contrast.set}", ""
    if not math.isnan(contrast.p_pairs):
        extent = f"on these utterances of {contrast.set}"
        pairs = f" (matched pairs {_p(contrast.p_pairs_holm)})"
    sentence = f"undecided: {contrast.arm} is {size} than {contrast.baseline} {extent}{pairs}"
    return f"{sentence}, but with {_seeds(contrast)} the noise of seeds is unknown; {SEED_NOISE}"


def _seeds(contrast: Contrast) -> str:
    own, base = contrast.seeds
    if own == base:
        return f"{own} seed{'s' if own > 1 else ''}"
    return f"{own} against {base} seeds"


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
