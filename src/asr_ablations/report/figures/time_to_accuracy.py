"""Time to accuracy: what each arm took to reach a target (Baunsgaard2020 tables 4 and 6)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from asr_ablations.comparison.metrics import find_metric
from asr_ablations.comparison.result import Comparison, TimeToAccuracy
from asr_ablations.statistics.tails import t_bound
from asr_ablations.tools.files import Json
from asr_ablations.tools.plotting import bar, legend, panels, save

MEASURES = {"seconds": "seconds", "audio_hours": "hours of audio", "epochs": "epochs"}


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """time_to_accuracy: a panel per measure, a dot per seed; a bar for the mean over seeds, with its 95 % interval,
    only where every seed reached the target: the mean of those that did would flatter.
    """
    times = comparison.times_to_accuracy
    measures = [measure for measure in MEASURES if _known(times, measure)]
    if not measures:
        return []
    targets = sorted({(time.metric, time.target) for time in times}, key=lambda target: (target[0], -target[1]))
    figure, axes = panels(len(measures))
    width = 0.8 / len(comparison.arms)
    for panel, measure in zip(axes, measures, strict=True):
        for number, arm in enumerate(comparison.arms):
            for place, target in enumerate(targets):
                own = [time for time in times if time.arm == arm.name and (time.metric, time.target) == target]
                x = place - 0.4 + width * (number + 0.5)
                label = arm.name if place == 0 else ""
                _draw_times(panel, x, width, own, measure, {**bar(number), "label": label})
        names = [find_metric(metric).target_text(target) for metric, target in targets]
        panel.set_xticks(range(len(targets)), names)
        panel.set_xlabel(
            "targets chosen from these curves" if any(time.chosen for time in times) else "declared targets"
        )
        panel.set_ylabel(f"{MEASURES[measure]} to the target")
        panel.margins(y=0.2)
        panel.set_ylim(bottom=0)
        panel.grid(False, axis="x")
    legend(figure, axes[0])
    return save(figure, folder, "time_to_accuracy")


def _draw_times(panel: Axes, x: float, width: float, times: Sequence[TimeToAccuracy], measure: str, look: Json) -> None:
    """The bar, the dots and, where a seed is missing, how many arrived."""
    known = _known(times, measure)
    if known and len(known) == len(times):
        whisker = {"linewidth": 1, "capsize": 3}
        panel.bar(x, float(np.mean(known)), width, yerr=_half_width(known), error_kw=whisker, **look)
    else:
        panel.bar(x, 0, width, **{**look, "linewidth": 0})  # for the legend alone
        _annotate(panel, x, known, times)
    panel.plot([x] * len(known), known, "o", color="black", markersize=2.5)


def _half_width(values: Sequence[float]) -> float | None:
    """Half of the 95 % interval of the mean, by Student's t; None for a single value."""
    if len(values) < 2:
        return None
    return float(t_bound(0.025, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))


def _known(times: Sequence[TimeToAccuracy], measure: str) -> list[float]:
    return [value for time in times if (value := getattr(time, measure)) is not None]


def _annotate(panel: Axes, x: float, known: Sequence[float], times: Sequence[TimeToAccuracy]) -> None:
    """Say how many seeds reached the target; NA where they did, but when was not recorded."""
    reached = sum(time.steps is not None for time in times)
    text = "NA" if reached == len(times) else f"{reached} of {len(times)} reached" if reached else "never"
    panel.annotate(
        text, (x, max(known, default=0)), xytext=(0, 4), textcoords="offset points",
        rotation=90, ha="center", va="bottom", fontsize=7.5,
    )  # fmt: skip
