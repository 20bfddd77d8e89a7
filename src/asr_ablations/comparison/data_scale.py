"""Relate error rates to hours of training speech, for sweeps over data.subset or data.hours."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from asr_verdicts.arms import Arm, name_of
from asr_verdicts.comparison import Comparison
from asr_verdicts.config import within
from asr_verdicts.metrics import Metric
from asr_verdicts.one_arm import final_values
from asr_verdicts.statistics.sample import mean_and_deviation

SIZES = ("data.subset", "data.hours")
"""Config keys that set the hours of training speech."""


@dataclass(frozen=True)
class ScalePoint:
    """The metric of an arm on a set: its mean and standard deviation over n runs.

    - series: the arm's settings, except the hours of training speech
    - hours: hours of training speech, according to data.json, averaged over runs
    - doubling: change of the mean per doubling of the hours, relative to the next smaller point; None for the smallest
    """

    set: str
    series: str
    hours: float
    n: int
    mean: float
    deviation: float | None
    doubling: float | None = None


def data_scale(comparison: Comparison) -> list[ScalePoint]:
    """Return a row for each set, series and number of hours. Empty if the hours do not vary within any series."""
    if not any(within(key, SIZES) for key in comparison.design.layout.factor):
        return []
    measured = [_measure(arm, name, comparison.design.metric) for name in comparison.sets for arm in comparison.arms]
    rows: list[ScalePoint] = []
    for curve in curves_of([point for point in measured if point is not None]):
        rows.append(curve[0])
        for smaller, point in itertools.pairwise(curve):
            rows.append(replace(point, doubling=(point.mean - smaller.mean) / math.log2(point.hours / smaller.hours)))
    return rows if any(row.doubling is not None for row in rows) else []


def curves_of(points: Sequence[ScalePoint]) -> list[list[ScalePoint]]:
    """Group points by set and series, and sort them by hours. If several have equal hours, only the first is used."""
    curves: dict[tuple[str, str], dict[float, ScalePoint]] = {}
    for point in points:
        curves.setdefault((point.set, point.series), {}).setdefault(point.hours, point)
    return [sorted(curve.values(), key=lambda point: point.hours) for curve in curves.values()]


def crossings(points: Sequence[ScalePoint]) -> list[tuple[str, str, str, float]]:
    """Return (set, series, other series, hours) for each crossing of two curves, interpolated over log-hours."""
    found = []
    for first, second in itertools.combinations(curves_of(points), 2):
        if first[0].set == second[0].set:
            low, high = max(first[0].hours, second[0].hours), min(first[-1].hours, second[-1].hours)
            x = np.log(sorted({point.hours for point in (*first, *second) if low <= point.hours <= high}))
            gaps = _interpolate(first, x) - _interpolate(second, x)
            for i in np.flatnonzero((gaps[:-1] < 0) != (gaps[1:] < 0)):
                at = x[i] + (x[i + 1] - x[i]) * gaps[i] / (gaps[i] - gaps[i + 1])
                found.append((first[0].set, first[0].series, second[0].series, float(np.exp(at))))
    return found


def _interpolate(curve: Sequence[ScalePoint], x: np.ndarray) -> np.ndarray:
    return np.interp(x, np.log([point.hours for point in curve]), [point.mean for point in curve])


def _measure(arm: Arm, name: str, metric: Metric) -> ScalePoint | None:
    """Measure an arm on a set, without `doubling`; None if results or hours of training were not recorded."""
    values = final_values(arm, name, metric)
    hours = [training.hours or 0.0 for run in arm.runs if (training := run.data.sets.get("train")) is not None]
    if not values or not hours or not all(hours):
        return None
    series = {key: value for key, value in arm.levels.items() if not within(key, SIZES)}
    return ScalePoint(name, name_of(series), float(np.mean(hours)), len(values), *mean_and_deviation(values))
