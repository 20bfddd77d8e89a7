"""Seed noise: how far the error rates of two runs may differ that differ in nothing but chance."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy import stats

from asr_ablations.comparison.confounds import content
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.records import load
from asr_ablations.statistics.seeds import mean_and_deviation
from asr_ablations.tools.errors import UsageError

LIBRISPEECH_SEEDS = (0.0006, 0.0017)
"""WER of LibriSpeech test-clean varies by 0.06 to 0.17 points between seeds, in AlgoPerf's training logs."""


@dataclass(frozen=True)
class Noise:
    """The seed noise of one test set, WER as fractions. limit: the largest difference of two runs that counts as noise;
    deviation: the standard deviation over seeds, None where it was not measured; source: where the numbers come from.
    """

    limit: float
    deviation: float | None
    source: str


_PUBLISHED = Noise(
    LIBRISPEECH_SEEDS[1],
    None,
    "no other seeds in this run's sweep; AlgoPerf's logs have 0.06 to 0.17 on LibriSpeech test-clean between seeds",
)


def noise(original: RunRecord, sweep: Path) -> dict[str, Noise]:
    """The seed noise of every test set for which it is known: from the runs of the sweep that differ from the original
    in their seed alone, or else the published noise of LibriSpeech test-clean.
    """
    runs = {run.seed: run for run in siblings(original, sweep)}
    result = {}
    for name in original.summary["test_sets"]:
        rates = [run.summary["sets"][name]["wer"] for run in runs.values() if name in run.summary["sets"]]
        if len(rates) > 1:
            words = int(original.summary["sets"][name].get("words") or 0)
            result[name] = from_seeds(rates, 1 / words if words else 0.0)
        elif name == "test-clean" and str(original.config["data"].get("_target_")).endswith(".LibriSpeech"):
            result[name] = _PUBLISHED
    return result


def siblings(original: RunRecord, sweep: Path) -> list[RunRecord]:
    """The original, and the finished runs of its sweep that differ from it in the seed alone."""
    try:
        runs = load([sweep]).runs
    except UsageError:  # one of them is damaged: that does not keep the original from being reproduced
        return [original]
    own = json.dumps(content(original), sort_keys=True)
    others = [run for run in runs if run.seed != original.seed]
    return [original, *(run for run in others if json.dumps(content(run), sort_keys=True) == own)]


def from_seeds(rates: Sequence[float], grain: float) -> Noise:
    """The noise of runs with several seeds: the difference of two runs stays below its limit in 95 of 100 pairs.

    The limit is t · √2 · sd, with Student's t for the seeds that sd was estimated from (ISO 5725-6's repeatability
    limit, for few runs). grain: the WER of a single error; rates are rounded to it, and cannot be known better.
    """
    deviation = mean_and_deviation(rates)[1]
    assert deviation is not None
    least = max(deviation, grain / math.sqrt(12))
    limit = float(stats.t.ppf(0.975, len(rates) - 1)) * math.sqrt(2) * least
    return Noise(limit, deviation, f"{len(rates)} seeds of this run's sweep")
