"""The noise of seeds, from other sweeps if the runs themselves do not show it."""

from collections.abc import Sequence
from pathlib import Path

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.metrics import Metric
from asr_ablations.runs.seed_noise import pooled_deviation, seed_noise

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


FEW, QUIET = 5, 2.0
"""Seeds up to which a deviation may be small by luck, and how many times smaller than earlier ones it has to be."""


def quiet_by_luck(sweep: Path, arms: Sequence[Arm], set_: str, metric: Metric) -> str | None:
    """A warning where the few seeds of the arms lie far closer together than those of earlier sweeps on the same data.

    The verdict takes no notice of it: a prior for the variance would save 13 to 25 % of the runs, and multiplies false
    claims by 1.4 to 7 where an arm is unlike the earlier ones, which is what ablations are for (docs/statistics.md).
    """
    rates = [[rate for run in arm.runs if (rate := run.value(set_, metric.name)) is not None] for arm in arms]
    several = [of_arm for of_arm in rates if len(of_arm) > 1]
    like = next((run for arm in arms for run in arm.runs), None)
    if not several or like is None or not metric.is_rate or max(map(len, several)) > FEW:
        return None
    noise = seed_noise(sweep.resolve().parent, like, set_, metric.name)
    own = pooled_deviation(several, 0.0)
    if noise is None or own * QUIET > noise.deviation:
        return None
    return (
        f"the seeds move {metric.label} by {metric.text(own)} here (standard deviation), and by "
        f"{metric.text(noise.deviation)} in {noise.runs} earlier runs of {noise.arms} arms: few may lie close by luck"
    )
