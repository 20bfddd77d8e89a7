"""Seed noise: how far the error rates of two runs may differ that differ in nothing but chance."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asr_ablations.runs.records import load
from asr_verdicts.errors import UsageError
from asr_verdicts.record import Record
from asr_verdicts.statistics.distributions import normal_bound, t_bound
from asr_verdicts.statistics.sample import mean_and_deviation

LIBRISPEECH_SEEDS = (0.0006, 0.0017)
"""WER of LibriSpeech test-clean varies by 0.06 to 0.17 points between seeds, in AlgoPerf's training logs."""

FEWEST_SEEDS = 4
"""Under four seeds the limit would be 6 (three seeds) or 18 (two) standard deviations: nearly everything would lie
within it, and that would say nothing.
"""

ALPHA = 0.05
"""The chance that a reproduction that differs in nothing but chance lies beyond the limit on any of its test sets."""


@dataclass(frozen=True)
class SeedTolerance:
    """The seed noise of one test set, WER as fractions.

    limit: the largest difference of two runs that counts as noise, None where too little is known to tell; deviation:
    the standard deviation over seeds, None where it was not measured; source: where the numbers come from.
    """

    limit: float | None
    deviation: float | None
    source: str


def noise(original: Record, sweep: Path) -> dict[str, SeedTolerance]:
    """The seed noise of every test set: from the runs of the sweep that differ from the original in their seed alone,
    where these are FEWEST_SEEDS or more, or else the published noise of LibriSpeech test-clean. ALPHA is shared by the
    sets (Bonferroni), or three sets would raise three chances of a false alarm.
    """
    runs = {run.seed: run for run in siblings(original, sweep)}
    sets = original.summary.test_sets
    result = {}
    for name in sets:
        rates = [rate for run in runs.values() if (rate := run.value(name, "wer")) is not None]
        librispeech = str(original.config["data"].get("_target_")).endswith(".LibriSpeech")
        if len(rates) < FEWEST_SEEDS and name == "test-clean" and librispeech:
            result[name] = published(len(sets))
        else:
            words = original.value(name, "words")
            result[name] = from_seeds(rates, 1 / words if words else 0.0, len(sets))
    return result


def siblings(original: Record, sweep: Path) -> list[Record]:
    """The original, and the finished runs of its sweep that differ from it in the seed alone."""
    try:
        runs = load([sweep]).runs
    except UsageError:  # one of them is damaged: that does not keep the original from being reproduced
        return [original]
    own = json.dumps(original.content, sort_keys=True)
    others = [run for run in runs if run.seed != original.seed]
    return [original, *(run for run in others if json.dumps(run.content, sort_keys=True) == own)]


def from_seeds(rates: Sequence[float], grain: float, sets: int = 1) -> SeedTolerance:
    """The noise of runs with several seeds: the differences of two runs stay below the limits of all `sets` test sets
    in 95 of 100 pairs or more. Under FEWEST_SEEDS there is no limit.

    The limit is t · √2 · sd, with Student's t for the seeds that sd was estimated from (ISO 5725-6's repeatability
    limit, for few runs). grain: the WER of a single error; rates are rounded to it, and cannot be known better.
    """
    deviation = mean_and_deviation(rates)[1] if rates else None
    source = f"{len(rates)} seed{'s' if len(rates) > 1 else ''} of this run's sweep"
    if deviation is None or len(rates) < FEWEST_SEEDS:
        return SeedTolerance(None, deviation, source)
    quantile = t_bound(ALPHA / sets / 2, len(rates) - 1)
    return SeedTolerance(quantile * math.sqrt(2) * max(deviation, grain / math.sqrt(12)), deviation, source)


def published(sets: int = 1) -> SeedTolerance:
    """The published noise of LibriSpeech test-clean. The limit is z · √2 · sd, with the upper end of the published
    range as sd, and the normal quantile, since it is taken as known. sets: as for from_seeds.
    """
    quantile = normal_bound(ALPHA / sets / 2)
    source = "too few seeds in this run's sweep; AlgoPerf's logs have sd 0.06 to 0.17 on LibriSpeech test-clean"
    return SeedTolerance(quantile * math.sqrt(2) * LIBRISPEECH_SEEDS[1], None, source)
