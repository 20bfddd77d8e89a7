"""One arm over seeds: described, since there is nothing to compare it with (Ambroszczyk2019 §2.7.2)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asr_ablations.comparison.arm import Arm
from asr_ablations.comparison.metrics import LOSS, METRICS, Metric, measured_sets
from asr_ablations.comparison.table import final_value
from asr_ablations.statistics.sample import Sample
from asr_ablations.statistics.spread import Spread, describe


@dataclass(frozen=True)
class Description:
    """A metric of the last weights on a set, over the runs of an arm; rates as fractions, losses in nats."""

    arm: str
    set: str
    metric: Metric
    spread: Spread


def one_arm(arms: Sequence[Arm]) -> bool:
    """Whether there is one arm with several seeds: a question about chance, not about a factor."""
    return len(arms) == 1 and len(arms[0].runs) > 1


def descriptions(arms: Sequence[Arm]) -> list[Description]:
    """Every metric on every set, the first validation set before the test sets; empty unless there is one arm."""
    if not one_arm(arms):
        return []
    return [
        Description(arms[0].name, name, metric, describe(Sample.of_rates(np.array(values))))
        for metric in METRICS.values()
        for name in measured_sets(LOSS, arms[0].runs)
        if len(values := final_values(arms[0], name, metric)) > 1
    ]


def final_values(arm: Arm, name: str, metric: Metric) -> list[float]:
    """The metric of every run that recorded it, in the order of seeds."""
    return [value for run in arm.runs if (value := final_value(run, name, metric.name)) is not None]
