"""Time of an epoch over the number of GPUs (papers/003 §2.5, tables 2.1 and 2.2, figures 2.4 and 2.5)."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from asr_ablations.comparison.result import Comparison
from asr_ablations.runs.record import RunRecord
from asr_ablations.tools.plotting import legend, line, marker, panels, save


def draw(comparison: Comparison, folder: Path) -> list[Path]:
    """scaling: seconds an epoch and the speed-up over the fewest GPUs; nothing where all runs have as many."""
    found = _seconds(comparison)
    if len({count for series in found.values() for count in series}) < 2:
        return []
    figure, (seconds, speedup) = panels(2)
    for number, (name, series) in enumerate(found.items()):
        counts = sorted(series)
        means = np.array([np.mean(series[count]) for count in counts])
        deviations = [float(np.std(series[count], ddof=1)) if len(series[count]) > 1 else 0.0 for count in counts]
        look = {**line(number), **marker(number)}
        seconds.errorbar(counts, means, yerr=deviations, capsize=3, label=name, **look)
        speedup.plot(counts, means[0] / means, **look)
    counts = sorted({count for series in found.values() for count in series})
    fewest = max(1, counts[0])
    speedup.plot(counts, [max(1, c) / fewest for c in counts], ":", color="#777777", label="ideal")
    for panel, label in ((seconds, "training seconds an epoch"), (speedup, f"speed-up over {counts[0]}")):
        panel.set_xticks(counts)
        panel.set_xlabel("GPUs")
        panel.set_ylabel(label)
        panel.set_ylim(bottom=0)
    speedup.legend()
    legend(figure, seconds)
    return save(figure, folder, "scaling")


def _seconds(comparison: Comparison) -> dict[str, dict[int, list[float]]]:
    """Seconds of training batches an epoch: what else differs → number of GPUs → runs."""
    others = [key for key in comparison.differing if key not in ("gpus", "seed")]
    series: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in (run for arm in comparison.arms for run in arm.runs):
        total, epochs = run.summary.get("train_batch_seconds"), run.summary.get("epochs")
        count = _gpus(run)
        if total and epochs and count is not None:
            name = ", ".join(f"{key}={_look_up(run.config, key)}" for key in others) or "time"
            series[name][count].append(total / epochs)
    return series


def _gpus(run: RunRecord) -> int | None:
    asked = run.config.get("gpus")
    there = len(run.environment.get("hardware", {}).get("gpus", []))
    return there if asked == "auto" else asked if isinstance(asked, int) else None


def _look_up(config: Any, key: str) -> Any:
    for part in key.split("."):
        config = config.get(part) if isinstance(config, dict) else None
    return config
