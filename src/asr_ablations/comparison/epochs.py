"""Seconds of training per epoch (Ambroszczyk2019 §2.1 and §2.5)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from asr_ablations.comparison.arm import Arm
from asr_ablations.comparison.ratios import Ratio, ratio_of_times
from asr_ablations.runs.record import RunRecord
from asr_ablations.statistics.seeds import mean_and_deviation

COLUMN = "train/epoch_seconds"
"""Of metrics.csv: from the start of an epoch to the end of its last batch, without validation and checkpoints."""


@dataclass(frozen=True)
class EpochTimes:
    """Seconds per epoch of an arm.

    The first epoch stands apart, always: it fills caches, compiles and tunes kernels, and with order=sortagrad it has
    another order. first: its mean over runs; None where a run has no later epoch, and all are of first epochs.
    epochs: the number of all later epochs; mean: of the runs' means over these. over_epochs: their deviation within a
    run, pooled over runs; over_runs: the deviation of the runs' means; each None where nothing is left to deviate.
    ratio: to the baseline's.
    """

    arm: str
    runs: int
    epochs: int
    first: float | None
    mean: float
    over_epochs: float | None
    over_runs: float | None
    ratio: Ratio | None


def epoch_seconds(run: RunRecord) -> list[float]:
    """Seconds of training batches in every epoch, in order; empty where they were not recorded."""
    return [value for row in run.metrics if (value := row.get(COLUMN)) is not None]


def steady_seconds(run: RunRecord) -> float | None:
    """The mean over epochs from the second on; of a single epoch, that one."""
    seconds = epoch_seconds(run)
    return float(np.mean(seconds[1:] or seconds)) if seconds else None


def epoch_times(arms: Sequence[Arm], baseline: str) -> list[EpochTimes]:
    """A line for each arm that recorded them."""
    means = {arm.name: _means(arm) for arm in arms}
    return [_arm_times(arm, means, baseline) for arm in arms if means[arm.name]]


def _means(arm: Arm) -> list[float]:
    return [mean for run in arm.runs if (mean := steady_seconds(run)) is not None]


def _arm_times(arm: Arm, means: Mapping[str, list[float]], baseline: str) -> EpochTimes:
    recorded = [seconds for run in arm.runs if (seconds := epoch_seconds(run))]
    apart = all(len(seconds) > 1 for seconds in recorded)
    mean, over_runs = mean_and_deviation(means[arm.name])
    later = [seconds[1:] or seconds for seconds in recorded]
    return EpochTimes(
        arm=arm.name,
        runs=len(recorded),
        epochs=sum(map(len, later)),
        first=float(np.mean([seconds[0] for seconds in recorded])) if apart else None,
        mean=mean,
        over_epochs=_pooled_deviation(later),
        over_runs=over_runs,
        ratio=ratio_of_times(means[arm.name], means.get(baseline, []), itself=arm.name == baseline),
    )


def _pooled_deviation(groups: Sequence[Sequence[float]]) -> float | None:
    """Within groups, weighted by their degrees of freedom."""
    degrees = sum(len(group) - 1 for group in groups)
    squares = sum(float(np.var(group)) * len(group) for group in groups)
    return math.sqrt(squares / degrees) if degrees else None
