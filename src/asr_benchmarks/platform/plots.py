"""The plots of benchmark=platform, as in Baunsgaard2020 figures 7 to 10 and table 3."""

from collections.abc import Sequence

import numpy as np

from asr_ablations.comparison.metrics import CER_LONGER, WER, Metric
from asr_ablations.comparison.time_to_accuracy import curve
from asr_ablations.report.curves import smooth, throughput_curve
from asr_ablations.report.figures.throughput import SMOOTHED
from asr_ablations.runs.record import RunRecord
from asr_ablations.runs.utilisation import read_utilisation
from asr_ablations.tools.files import Json
from asr_benchmarks.platform.beam_widths import BeamRow
from asr_benchmarks.platform.tables import TargetRow, ThroughputRow
from asr_benchmarks.plots import Plot, plot

WINDOW = 25.0
"""Seconds that figure 8 shows."""
POINTS = 100
"""Points of a line over the whole training."""

Line = dict[float, float | None]


def plots(
    run: RunRecord, throughput: Sequence[ThroughputRow], targets: Sequence[TargetRow], evaluated: Sequence[BeamRow]
) -> list[Plot]:
    """The plots for which the run has something to show."""
    rates = {metric.label: _rates(run, metric) for metric in (WER, CER_LONGER)}
    speeds = {"training": {row["of"]: row["times real time"] for row in throughput}}
    reached = {f"{row['rate']} {row['target %']} %": row["minutes"] for row in targets}
    seconds = {row["beam width"]: row["seconds"] for row in evaluated}
    minutes, over_time = "minutes of training", "seconds of audio per second"
    drawn = [
        plot("Utilisation over 25 seconds", "lines", "seconds", "%", _window(read_utilisation(run.folder))),
        plot("Throughput over time", "lines", minutes, over_time, {"training": _over_time(run)}),
        plot("Throughput", "bars", "", over_time, speeds),
        plot("Rates over time", "lines", minutes, "%", rates, log=True),
        plot("Time to accuracy", "bars", "median over three validations", "minutes", {"reached": reached}),
        plot("Evaluation time by beam width", "lines", "beam width", "seconds", {"beam": seconds}, log=True),
    ]
    return [shown for shown in drawn if any(y is not None for line in shown["series"].values() for _, y in line)]


def _window(rows: Sequence[Json]) -> dict[str, Line]:
    """CPU and each GPU in % over WINDOW seconds, in the middle of the samples of training."""
    steps = [row for row in rows if row["phase"] == "train"] or list(rows)
    if not steps:
        return {}
    begin = max(steps[0]["seconds"], steps[len(steps) // 2]["seconds"] - WINDOW / 2)
    within = [row for row in rows if begin <= row["seconds"] <= begin + WINDOW]
    lines: dict[str, Line] = {"CPU": {round(row["seconds"] - begin, 2): row["cpu_percent"] for row in within}}
    for number in range(max((len(row["gpu_percents"]) for row in within), default=0)):
        known = [row for row in within if len(row["gpu_percents"]) > number]
        lines[f"GPU {number}"] = {round(row["seconds"] - begin, 2): row["gpu_percents"][number] for row in known}
    return lines


def _over_time(run: RunRecord) -> Line:
    samples = throughput_curve(run)
    parts = np.array_split(np.arange(len(samples.y)), min(POINTS, max(1, len(samples.y))))
    values = smooth(samples.y, SMOOTHED)
    return {float(samples.x[part].mean()) / 60: float(values[part].mean()) for part in parts if len(part)}


def _rates(run: RunRecord, metric: Metric) -> Line:
    """A rate in % by the minutes of training at each validation, without zeros, which have no logarithm."""
    points = ((point.spent["seconds"], point.value) for point in curve(run, metric))
    return {seconds / 60: 100 * value for seconds, value in points if seconds is not None and value}
