"""Curves of runs over epochs, steps, audio or time, and what several seeds of them span."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asr_ablations.comparison.result import Arm, Comparison
from asr_ablations.runs.record import RunRecord

AXES = {
    "epoch": "epochs",
    "step": "steps",
    "audio": "hours of audio trained",
    "time": "time in seconds",
}
"""What a curve can be drawn over, with the unit."""
COLUMNS = {"audio": "time/audio_hours", "time": "time/seconds"}


@dataclass(frozen=True)
class Curve:
    """Points in the order of x, without gaps: x (N,), y (N,)."""

    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Band:
    """Mean, smallest and largest of several curves, point by point (N,); x is their mean too."""

    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def curve(run: RunRecord, metric: str, axis: str) -> Curve:
    """The values of a metric over one of AXES; empty where the run has none, or was recorded without that axis."""
    known = [row for row in run.metrics if _number(row, metric) and _number(row, "step")]
    steps = np.array([row["step"] for row in known], float) + 1
    x = steps if axis == "step" else _at(run, axis, steps)
    y = np.array([row[metric] for row in known], float)
    return Curve(x, y) if len(x) == len(y) else Curve(np.zeros(0), np.zeros(0))


def band(curves: Sequence[Curve]) -> Band | None:
    """What curves of several seeds span, epoch by epoch; a shorter one just ends. None without a point."""
    kept = [c for c in curves if len(c.y)]
    if not kept:
        return None
    length = max(len(c.y) for c in kept)
    x, y = (
        np.array([_padded(values, length) for values in each]) for each in zip(*((c.x, c.y) for c in kept), strict=True)
    )
    return Band(np.nanmean(x, 0), np.nanmean(y, 0), np.nanmin(y, 0), np.nanmax(y, 0))


def arm_band(arm: Arm, metric: str, axis: str) -> Band | None:
    """The band of an arm's seeds."""
    return band([curve(run, metric, axis) for run in arm.runs])


def metric_names(comparison: Comparison, prefix: str, suffix: str = "") -> list[str]:
    """Columns of any run's metrics.csv that hold numbers and are named so, in order."""
    rows = (row for arm in comparison.arms for run in arm.runs for row in run.metrics)
    return sorted(
        {key for row in rows for key in row if key.startswith(prefix) and key.endswith(suffix) and _number(row, key)}
    )


def smooth(values: np.ndarray, deviation: float) -> np.ndarray:
    """A Gaussian filter of this standard deviation, in points (papers/004 figure 7a)."""
    from scipy.ndimage import gaussian_filter1d

    return gaussian_filter1d(np.asarray(values, float), deviation, mode="nearest") if len(values) else values


def _at(run: RunRecord, axis: str, steps: np.ndarray) -> np.ndarray:
    """Positions on an axis at these steps, between the epochs' ends on a straight line; empty where unknown."""
    column = COLUMNS.get(axis, axis)
    ends = [row for row in run.metrics if _number(row, column) and _number(row, "step") and not _of_a_step(row)]
    found = {row["step"] + 1: row[column] + (axis == "epoch") for row in ends}  # type: ignore[operator]
    if not found:
        return np.zeros(0)
    known = sorted(found)
    return np.interp(steps, [0, *known], [0, *(found[step] for step in known)])


def _of_a_step(row: dict[str, float | None]) -> bool:
    """Lightning writes a row every few steps besides those of an epoch's end."""
    return row.get("train/loss_step") is not None


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate([values, np.full(length - len(values), np.nan)])


def _number(row: dict[str, float | None], key: str) -> bool:
    value = row.get(key)
    return value is not None and bool(np.isfinite(value))
