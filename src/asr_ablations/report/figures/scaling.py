"""Time of an epoch over the number of GPUs (papers/003 §2.5, tables 2.1 and 2.2, figures 2.4 and 2.5)."""

from collections import defaultdict
from pathlib import Path

import numpy as np

from asr_ablations.comparison.confounds import flatten
from asr_ablations.comparison.result import Comparison
from asr_ablations.comparison.scaling import gpu_count
from asr_ablations.tools.plotting import legend, line, marker, panels, save


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """scaling: seconds per epoch and the speed-up over the fewest GPUs; nothing where all runs have the same number."""
    series_by_name = _seconds(comparison)
    counts = sorted({count for series in series_by_name.values() for count in series})
    if len(counts) < 2:
        return []
    figure, (seconds, speedup) = panels(2)
    for number, (name, series) in enumerate(series_by_name.items()):
        own = sorted(series)
        means = np.array([np.mean(series[count]) for count in own])
        deviations = [float(np.std(series[count], ddof=1)) if len(series[count]) > 1 else 0.0 for count in own]
        look = {**line(number), **marker(number)}
        seconds.errorbar(own, means, yerr=deviations, capsize=3, label=name, **look)
        speedup.plot(own, means[0] / means, **look)
    fewest = max(1, counts[0])
    speedup.plot(counts, [max(1, count) / fewest for count in counts], ":", color="#777777", label="ideal")
    for panel, label in ((seconds, "training seconds per epoch"), (speedup, f"speed-up over {counts[0]}")):
        panel.set_xticks(counts)
        panel.set_xlabel("GPUs")
        panel.set_ylabel(label)
        panel.set_ylim(bottom=0)
    speedup.legend()
    legend(figure, seconds)
    return save(figure, folder, "scaling")


def _seconds(comparison: Comparison) -> dict[str, dict[int, list[float]]]:
    """Seconds of training batches per epoch: by what else differs, then by the number of GPUs, for each run."""
    others = [key for key in comparison.differing if key not in ("gpus", "seed")]
    series: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in comparison.runs:
        total, epochs = run.summary.get("train_batch_seconds"), run.summary.get("epochs")
        if total and epochs:
            leaves = flatten(run.config)
            name = ", ".join(f"{key}={leaves.get(key)}" for key in others) or "time"
            series[name][gpu_count(run)].append(total / epochs)
    return series
