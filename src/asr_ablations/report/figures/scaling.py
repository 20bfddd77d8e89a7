"""Time of an epoch over the number of processes (Ambroszczyk2019 §2.5, tables 2.1 and 2.2, figures 2.4 and 2.5)."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from asr_ablations.comparison.ratios import Ratio
from asr_ablations.comparison.result import Comparison
from asr_ablations.comparison.scaling import Scaling, scaling
from asr_ablations.tools.plotting import legend, line, marker, panels, save


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """scaling: minutes per epoch and the speed-up over the fewest processes, a line per series; the price of an epoch
    where it is known. Nothing where all runs have the same number.
    """
    rows = scaling(comparison.arms)
    if not rows:
        return []
    priced = [row for row in rows if row.price is not None]
    figure, axes = panels(3 if priced else 2)
    minutes, speed_up = axes[:2]
    for number, name in enumerate(dict.fromkeys(row.series for row in rows)):
        own = [row for row in rows if row.series == name]
        counts = [row.processes for row in own]
        look = {**line(number), **marker(number), "capsize": 3, "label": name or "measured"}
        deviations = [(row.deviation or 0.0) / 60 for row in own]
        minutes.errorbar(counts, [row.epoch_seconds / 60 for row in own], yerr=deviations, **look)
        speed_up.errorbar(counts, [row.speed_up.value for row in own], yerr=_sides([r.speed_up for r in own]), **look)
        if any(row in priced for row in own):
            known = [row for row in own if row.price is not None]
            axes[2].errorbar([row.processes for row in known], [row.price or 0.0 for row in known], **look)
    _ideal(speed_up, rows)
    labels = ["minutes per epoch", f"speed-up over {min(row.processes for row in rows)}", "price of an epoch"]
    for panel, label in zip(axes, labels, strict=False):
        panel.set_xticks(sorted({row.processes for row in rows}))
        panel.set_xlabel("GPUs" if all(row.device == "GPU" for row in rows) else "processes that train together")
        panel.set_ylabel(label)
        panel.margins(y=0.1)
        panel.set_ylim(bottom=0)
    legend(figure, speed_up)
    return save(figure, folder, "scaling")


def _ideal(panel: Axes, rows: Sequence[Scaling]) -> None:
    counts = sorted({row.processes for row in rows})
    panel.plot(counts, [count / counts[0] for count in counts], ":", color="#777777", label="ideal")


def _sides(ratios: Sequence[Ratio]) -> list[list[float]]:
    """The lengths of the intervals below and above; 0 where there is none."""
    below = [0.0 if ratio.low is None else ratio.value - ratio.low for ratio in ratios]
    above = [0.0 if ratio.high is None else ratio.high - ratio.value for ratio in ratios]
    return [below, above]
