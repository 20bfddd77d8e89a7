"""What is known of the noise of seeds where the runs themselves cannot tell."""

from collections.abc import Sequence
from pathlib import Path

from asr_ablations.comparison.arm import Arm
from asr_ablations.comparison.metrics import Metric
from asr_ablations.runs.seed_noise import seed_noise

LIBRISPEECH = "on LibriSpeech's test-clean seeds move it by 0.06 to 0.17 WER (AlgoPerf's logs)"


def known_noise(sweep: Path | None, arms: Sequence[Arm], set_: str, metric: Metric) -> str:
    """A sentence on the noise of seeds, for arms with one seed; empty where the runs tell it themselves.

    It comes from the other sweeps beside this one that were tested on the same data, and from published logs for
    LibriSpeech alone: on a small corpus the noise is twenty to fifty times as large.
    """
    if not metric.is_rate or min(len(arm.results) for arm in arms) > 1:
        return ""
    like = next(run for arm in arms for run in arm.runs)
    noise = None if sweep is None else seed_noise(sweep.resolve().parent, like, set_, metric.name)
    if noise is not None:
        earlier = f"{noise.runs} earlier runs of {noise.arms} arms on this test set"
        return f"in {earlier} seeds moved it by {metric.text(noise.deviation)} {metric.amount} (standard deviation)"
    if set_ == "test-clean" and str((like.config.get("data") or {}).get("_target_")).endswith(".LibriSpeech"):
        return LIBRISPEECH
    return "no earlier sweep on this test set tells it"
