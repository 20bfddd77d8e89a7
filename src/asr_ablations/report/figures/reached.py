"""Time to accuracy: what each arm took to reach a target (papers/004 tables 4 and 6)."""

from pathlib import Path
from typing import Any

import numpy as np

from asr_ablations.comparison.result import Comparison
from asr_ablations.tools.plotting import bar, legend, panels, save

MEASURES = {"seconds": "seconds", "audio_hours": "hours of audio", "epochs": "epochs"}


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """time_to_accuracy: a panel a measure, bars of the seeds' mean, a dot a seed."""
    measures = [m for m in MEASURES if any(getattr(r, m) is not None for r in comparison.reached)]
    if not measures:
        return []
    targets = sorted({(r.metric, r.target) for r in comparison.reached}, key=lambda t: (t[0], -t[1]))
    figure, axes = panels(len(measures))
    width = 0.8 / len(comparison.arms)
    for panel, measure in zip(axes, measures, strict=True):
        for number, arm in enumerate(comparison.arms):
            for place, target in enumerate(targets):
                own = [r for r in comparison.reached if r.arm == arm.name and (r.metric, r.target) == target]
                x = place - 0.4 + width * (number + 0.5)
                label = arm.name if place == 0 else None
                known = [v for r in own if (v := getattr(r, measure)) is not None]
                panel.bar(x, np.mean(known) if known else 0, width, label=label, **bar(number))
                panel.plot([x] * len(known), known, "o", color="black", markersize=2.5)
                if own and len(known) < len(own):
                    told = "never" if not known else f"{len(known)} of {len(own)}"
                    height = max(known, default=0)
                    offset: dict[str, Any] = {"xytext": (0, 4), "textcoords": "offset points"}
                    panel.annotate(told, (x, height), rotation=90, ha="center", va="bottom", fontsize=7.5, **offset)
        panel.set_xticks(range(len(targets)), [_target(*target) for target in targets])
        panel.set_ylabel(f"{MEASURES[measure]} to the target")
        panel.margins(y=0.2)
        panel.set_ylim(bottom=0)
        panel.grid(False, axis="x")
    legend(figure, axes[0])
    return save(figure, folder, "time_to_accuracy")


def _target(metric: str, target: float) -> str:
    return f"{metric.split('/')[-1].upper()} {100 * target:.3g} %"
