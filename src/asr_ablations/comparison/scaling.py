"""How training scales with the number of processes that train together."""

import json
from collections.abc import Sequence

import numpy as np

from asr_ablations.comparison.confounds import content
from asr_ablations.comparison.result import Arm, Scaling
from asr_ablations.runs.record import RunRecord


def scaling(arms: Sequence[Arm]) -> list[Scaling]:
    """Speed-up and efficiency by number of GPUs, within runs that are otherwise alike (papers/003 §2.5), then the mean
    over such groups; empty where no group used several numbers. Speed is hours of audio per second in the training
    step.
    """
    gains: dict[int, list[float]] = {}
    speeds: dict[int, list[float]] = {}
    for by_count in _speeds_of_alike([run for arm in arms for run in arm.runs]):
        fewest = min(by_count)
        for count, measured in by_count.items():
            gains.setdefault(count, []).append(fewest * float(np.mean(measured)) / float(np.mean(by_count[fewest])))
            speeds.setdefault(count, []).extend(measured)
    return [
        Scaling(
            gpus=count,
            n=len(speeds[count]),
            audio_hours_per_second=float(np.mean(speeds[count])),
            speed_up=float(np.mean(gains[count])) / min(gains),
            efficiency=float(np.mean(gains[count])) / count,
        )
        for count in sorted(gains)
    ]


def _speeds_of_alike(runs: Sequence[RunRecord]) -> list[dict[int, list[float]]]:
    """Speeds by number of GPUs, for each group of runs that differ in nothing but this number and the seed."""
    groups: dict[str, dict[int, list[float]]] = {}
    for run in runs:
        speed, count = run.summary.get("audio_hours_per_second"), gpu_count(run)
        if speed and count:
            rest = {key: value for key, value in content(run).items() if key != "gpus"}
            groups.setdefault(json.dumps(rest, sort_keys=True), {}).setdefault(count, []).append(float(speed))
    return [by_count for by_count in groups.values() if len(by_count) > 1]


def gpu_count(run: RunRecord) -> int:
    """Number of GPUs that a run used; 0 on the CPU."""
    setting = run.config.get("gpus", "auto")
    return len(run.environment.get("hardware", {}).get("gpus", [])) if setting == "auto" else int(setting)
