"""Compute curves of runs over epochs, steps, audio or time, and bands that span the curves of several seeds."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asr_ablations.runs.metrics_files import by_second, read_utilisation
from asr_ablations.runs.reader import read_gradient_norms, read_losses
from asr_verdicts.comparison import Comparison
from asr_verdicts.record import Record

Values = NDArray[np.float64]

AXES = {"epoch": "epochs", "step": "steps", "audio": "hours of audio trained", "time": "time in seconds"}
"""Possible x axes of curves, with their labels."""
COLUMNS = {"audio": "time/audio_hours", "time": "time/seconds"}
"""Columns of metrics.csv for the axes whose names differ from their columns' names."""
SMOOTHED_STEPS = 10
"""Standard deviation, in steps, of the Gaussian filter for losses, as in Baunsgaard2020 figure 7a."""
SMOOTHED_SAMPLES = 3
"""Standard deviation, in samples (about one per second), of the Gaussian filter for utilisation."""
POINTS = 2000
"""Maximum number of points in a line, because a run may have 100,000 steps."""
STRETCHES = 500
"""Maximum number of points in a gradient curve. Each point is the largest norm in a group of steps, to keep peaks."""


class Curve(NamedTuple):
    """Points of a curve: x (N,) in ascending order, and y (N,)."""

    x: Values
    y: Values


EMPTY = Curve(np.zeros(0), np.zeros(0))


class Band(NamedTuple):
    """Mean and range of several curves at each point, in arrays (N,). x is the mean position."""

    x: Values
    mean: Values
    low: Values
    high: Values


def curve(run: Record, metric: str, axis: str) -> Curve:
    """Return the curve of a metric over one of AXES. The curve is empty if the metric or the axis was not recorded."""
    logged = [(row, value) for row in run.metrics if (value := _read_number(row, metric)) is not None]
    points = [(step + 1, value) for row, value in logged if (step := _read_number(row, "step")) is not None]
    return _place(run, axis, np.array([step for step, _ in points], float), [value for _, value in points])


def loss_curve(run: Record, axis: str) -> Curve:
    """Return the training loss of every step, or of every tenth step for runs from W&B, which have no losses.csv."""
    if not (losses := [float(loss) for loss in read_losses(run.folder)]):
        return curve(run, "train/loss_step", axis)
    return _place(run, axis, np.arange(1, len(losses) + 1, dtype=float), losses)


def smoothed_loss(run: Record, axis: str) -> Curve:
    """Return the training loss smoothed over steps, with at most POINTS points."""
    steps = loss_curve(run, axis)
    every = np.unique(np.linspace(0, len(steps.y) - 1, min(POINTS, len(steps.y))).astype(int))
    return Curve(steps.x[every], smooth(steps.y, SMOOTHED_STEPS)[every])


def gradient_curve(run: Record) -> Curve:
    """Return the largest finite gradient norm in each of STRETCHES groups of steps, at its step (counted from 1)."""
    norms = np.array(read_gradient_norms(run.folder))
    finite = np.where(np.isfinite(norms), norms, -np.inf)
    stretches = [part for part in np.array_split(np.arange(len(norms)), STRETCHES) if len(part)]
    at = np.array([part[np.argmax(finite[part])] for part in stretches], dtype=int)
    at = at[np.isfinite(finite[at])]
    return Curve(at + 1.0, norms[at])


def throughput_curve(run: Record) -> Curve:
    """Return the training speed before the final evaluation, in seconds of audio per second.

    The curve is empty if the run has fewer than two utilisation samples.
    """
    samples = by_second(read_utilisation(run.folder))
    rows = [r for r in samples if r["audio_hours"] is not None and r["phase"] != "evaluate"]
    seconds, hours = (np.array([row[key] for row in rows], float) for key in ("seconds", "audio_hours"))
    if len(rows) < 2 or np.any(np.diff(seconds) <= 0):
        return EMPTY
    return Curve(seconds[1:], 3600 * np.diff(hours) / np.diff(seconds))


def band(curves: Sequence[Curve]) -> Band | None:
    """Return mean and range of the curves of several seeds, which may differ in length, or None if all are empty."""
    lines = [curve for curve in curves if len(curve.y)]
    if not lines:
        return None
    x, y = (np.array([*zip_longest(*side, fillvalue=np.nan)]) for side in zip(*lines, strict=True))
    return Band(np.nanmean(x, 1), np.nanmean(y, 1), np.nanmin(y, 1), np.nanmax(y, 1))


def metric_names(comparison: Comparison, prefix: str, suffix: str = "") -> list[str]:
    """Return the sorted columns of metrics.csv with this prefix and suffix that have a number in at least one run."""
    rows = [row for run in comparison.runs for row in run.metrics]
    named = {key for row in rows for key in row if key.startswith(prefix) and key.endswith(suffix)}
    return sorted(key for key in named if any(_read_number(row, key) is not None for row in rows))


def smooth(values: ArrayLike, deviation: float) -> Values:
    """Smooth values with a Gaussian filter. deviation: its standard deviation in points."""
    from scipy.ndimage import gaussian_filter1d

    points = np.asarray(values, float)
    return np.asarray(gaussian_filter1d(points, deviation, mode="nearest")) if len(points) else points


def _place(run: Record, axis: str, steps: Values, values: Sequence[float]) -> Curve:
    """Return values over an axis, interpolated between epoch ends. The curve is empty if the ends were not recorded."""
    if axis == "step":
        return Curve(steps, np.array(values, float))
    column = COLUMNS.get(axis, axis)
    ends: dict[float, float] = {}
    for row in run.metrics:
        position, step = _read_number(row, column), _read_number(row, "step")
        is_within_epoch = row.get("train/loss_step") is not None  # Lightning also writes a row every tenth step
        if position is not None and step is not None and not is_within_epoch:
            ends[step + 1] = position + (axis == "epoch")
    if not ends:
        return EMPTY
    x = np.interp(steps, [0, *sorted(ends)], [0, *(ends[step] for step in sorted(ends))])
    return Curve(x, np.array(values, float))


def _read_number(row: Mapping[str, float | None], key: str) -> float | None:
    """Return the number in a column, or None if it is missing or not finite."""
    value = row.get(key)
    return value if value is not None and np.isfinite(value) else None
