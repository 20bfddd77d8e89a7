"""Measure a single arm: its error rate, and the spread of its metrics over seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.metrics import LOSS, METRICS, Metric, measured_sets
from asr_verdicts.samples import measure_set
from asr_verdicts.sentences import speakers_text
from asr_verdicts.statistics.estimate import contrast_estimate, paired_estimate
from asr_verdicts.statistics.intervals import Range
from asr_verdicts.statistics.procedures import ALPHA, FixedLength
from asr_verdicts.statistics.sample import Sample, Spread, describe


@dataclass(frozen=True)
class Description:
    """The spread of a metric over the runs of an arm, measured with the final weights. Error rates are fractions."""

    arm: str
    set: str
    metric: Metric
    spread: Spread


def one_arm(arms: Sequence[Arm]) -> bool:
    """Return whether there is only one arm, with several finished runs, to measure the spread over seeds."""
    return len(arms) == 1 and len(arms[0].runs) > 1


def descriptions(comparison: Comparison) -> list[Description]:
    """Describe the spread of each metric on each set over the runs of the only arm. Return [] if `one_arm` is false."""
    arms = comparison.arms
    if not one_arm(arms):
        return []
    return [
        Description(arms[0].name, name, metric, describe(Sample.of_rates(np.array(values))))
        for metric in METRICS.values()
        for name in measured_sets(LOSS, arms[0].runs)
        if len(values := final_values(arms[0], name, metric)) > 1
    ]


@dataclass(frozen=True)
class ArmRate:
    """The error rate of an arm as a fraction, with its 95 % interval over seeds and speakers."""

    arm: str
    set: str
    metric: Metric
    rate: Range
    sentence: str


def lone_rates(comparison: Comparison) -> list[ArmRate]:
    """Estimate the error rate of the only arm on each test set. Return [] if there are several arms or no utterances.

    Student's t gives the interval over seeds and speakers, or over speakers alone if there is only one run.
    """
    metric = comparison.design.metric
    if len(comparison.arms) != 1 or not metric.is_rate:
        return []
    (arm,), rates = comparison.arms, []
    for name in comparison.sets:
        sample = measure_set([arm], arm, name, metric.name).samples.get(arm.name)
        if sample is None or sample.errors is None:
            continue
        several = len(sample.rates) > 1
        estimate = contrast_estimate([(1.0, sample)]) if several else paired_estimate([(1.0, sample)])
        if estimate is None or not math.isfinite(half := FixedLength().half_width(estimate, ALPHA)):
            continue
        rate = Range(estimate.value, estimate.value - half, estimate.value + half)
        ends = f"95 % interval {metric.text(rate.low)} to {metric.text(rate.high)}"
        models = f"{len(sample.rates)} seeds, " if several else ""
        measured = f"{arm.name} has {metric.text(rate.value)} % {metric.label} on {name}"
        alone = "" if several else " This is about this model: with one training, nothing is known about the method."
        sentence = f"{measured} ({ends}; {models}{speakers_text(estimate)}).{alone}"
        rates.append(ArmRate(arm.name, name, metric, rate, sentence))
    return rates


def final_values(arm: Arm, name: str, metric: Metric) -> list[float]:
    """Return the metric on a set for each finished run that recorded it, sorted by seed."""
    return [value for run in arm.runs if (value := run.value(name, metric.name)) is not None]
