"""Time to accuracy: what each arm took to reach a target (papers/004 tables 4 and 6)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from asr_ablations.comparison.metrics import find_metric
from asr_ablations.comparison.result import Comparison, TimeToAccuracy
from asr_ablations.tools.plotting import bar, legend, panels, save

MEASURES = {"seconds": "seconds", "audio_hours": "hours of audio", "epochs": "epochs"}


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """time_to_accuracy: a panel per measure, bars for the mean over seeds, a dot per seed."""
    times = comparison.times_to_accuracy
    measures = [measure for measure in MEASURES if _known(times, measure)]
    if not measures:
        return []
    targets = sorted({(time.metric, time.target) for time in times}, key=lambda target: (target[0], -target[1]))
    figure, axes = panels(len(measures))
    for panel, measure in zip(axes, measures, strict=True):
        for number, arm in enumerate(comparison.arms):
            for place, target in enumerate(targets):
                own = [time for time in times if time.arm == arm.name and (time.metric, time.target) == target]
                width = 0.8 / len(comparison.arms)
                x = place - 0.4 + width * (number + 0.5)
                label = arm.name if place == 0 else None
                known = _known(own, measure)
                panel.bar(x, np.mean(known) if known else 0, width, label=label, **bar(number))
                panel.plot([x] * len(known), known, "o", color="black", markersize=2.5)
                if len(known) < len(own):
                    _annotate(panel, x, known, len(own))
        panel.set_xticks(range(len(targets)), [_target(*target) for target in targets])
        panel.set_ylabel(f"{MEASURES[measure]} to the target")
        panel.margins(y=0.2)
        panel.set_ylim(bottom=0)
        panel.grid(False, axis="x")
    legend(figure, axes[0])
    return save(figure, folder, "time_to_accuracy")


def _known(times: Sequence[TimeToAccuracy], measure: str) -> list[float]:
    return [value for time in times if (value := getattr(time, measure)) is not None]


def _annotate(panel: Axes, x: float, known: Sequence[float], seeds: int) -> None:
    """Say above a bar how many seeds reached the target."""
    text = f"{len(known)} of {seeds}" if known else "never"
    panel.annotate(
        text, (x, max(known, default=0)), xytext=(0, 4), textcoords="offset points",
        rotation=90, ha="center", va="bottom", fontsize=7.5,
    )  # fmt: skip


def _target(metric: str, target: float) -> str:
    return find_metric(metric).target_text(target)
