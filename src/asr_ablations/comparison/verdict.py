"""A difference in words that a researcher would sign."""

import math

from asr_ablations.comparison.result import Difference

SEED_NOISE = "on LibriSpeech's test-clean it is 0.06 to 0.17 WER (AlgoPerf's logs)"


def is_shown(found: Difference, alpha: float) -> bool:
    """Whether the verdict says worse or better: its own p, with seeds and speakers in it, after correction."""
    return found.p_holm is not None and found.p_holm <= alpha


def verdict(found: Difference, baseline: str, family: int, alpha: float) -> str:
    """One sentence; rates in percent. With fewer than two seeds an arm it claims nothing beyond these utterances.

    family: how many verdicts were corrected together.
    """
    if found.half_width is None or found.p_holm is None:
        return _one_seed(found, baseline)
    sign = "worse" if found.difference > 0 else "better"
    size = f"{_percent(found.difference)} ± {_percent(found.half_width)} {found.metric.upper()} {sign}"
    corrected = f" after Holm's correction over {family}" if family > 1 else ""
    told = f"{_p(found.p_holm)}{corrected}; {_seeds(found)}"
    if is_shown(found, alpha):
        return f"{found.arm} is {size} than {baseline} on {found.set} ({told})"
    missed = f"; with {_seeds(found)} anything under {_percent(found.detectable)} would be missed"
    sentence = f"no difference shown between {found.arm} and {baseline} on {found.set} ({size}, {told})"
    return sentence + (missed if found.detectable is not None else "")


def _one_seed(found: Difference, baseline: str) -> str:
    size = f"{_percent(found.difference)} {found.metric.upper()}"
    sign = "worse" if found.difference > 0 else "better"
    there, pairs = f"on {found.set}", ""
    if not math.isnan(found.p_pairs):
        there, pairs = f"on these utterances of {found.set}", f" (matched pairs {_p(found.p_pairs_holm)})"
    sentence = f"undecided: {found.arm} is {size} {sign} than {baseline} {there}{pairs}"
    return f"{sentence}, but with {_seeds(found)} the noise of seeds is unknown; {SEED_NOISE}"


def _seeds(found: Difference) -> str:
    own, base = found.seeds
    if own == base:
        return f"{own} seed{'s' if own > 1 else ''}"
    return f"{own} against {base} seeds"


def _percent(fraction: float | None) -> str:
    return "?" if fraction is None else f"{100 * abs(fraction):.2f}"


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
