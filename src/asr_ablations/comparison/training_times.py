"""Measure epoch times and scaling over processes (Ambroszczyk2019 §2.1, §2.5). Check whether times are comparable."""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from asr_ablations.comparison.time_to_accuracy import Ratio, price_per_hour, ratio_of_times
from asr_verdicts.arms import Arm
from asr_verdicts.config import within
from asr_verdicts.confounds import value_text
from asr_verdicts.record import Record
from asr_verdicts.statistics.sample import mean_and_deviation

COLUMN = "train/epoch_seconds"
"""Column of metrics.csv with the seconds from the start of an epoch to its last batch, without validations."""


@dataclass(frozen=True)
class EpochTimes:
    """Seconds per epoch of an arm. The first epoch is listed separately, because it fills caches, tunes kernels and,
    with order=sortagrad, has a different order. If a run has only one epoch, that epoch counts as a later epoch.

    - first: mean time of the first epoch over runs; None if any run has only one epoch
    - epochs: number of later epochs in all runs; mean: mean over runs of the mean time of a run's later epochs
    - over_epochs: standard deviation within a run, pooled over runs; over_runs: standard deviation of the runs' means
    - ratio: `mean` relative to the baseline
    """

    arm: str
    runs: int
    epochs: int
    first: float | None
    mean: float
    over_epochs: float | None
    over_runs: float | None
    ratio: Ratio | None


def epoch_seconds(run: Record) -> list[float]:
    """Return the training time of every epoch in seconds; empty if the run did not record it."""
    return [value for row in run.metrics if (value := row.get(COLUMN)) is not None]


def steady_seconds(run: Record) -> float | None:
    """Return the mean time of an epoch in seconds, without the first epoch unless it is the only one."""
    seconds = epoch_seconds(run)
    return float(np.mean(seconds[1:] or seconds)) if seconds else None


def epoch_times(arms: Sequence[Arm], baseline: str) -> list[EpochTimes]:
    """Return a row for each arm whose runs recorded epoch times."""
    means = {arm.name: _list_steady_seconds(arm.runs) for arm in arms}
    rows = []
    for arm in arms:
        recorded = [seconds for run in arm.runs if (seconds := epoch_seconds(run))]
        if not recorded:
            continue
        later = [seconds[1:] or seconds for seconds in recorded]
        degrees = sum(len(seconds) - 1 for seconds in later)
        squares = sum(float(np.var(seconds)) * len(seconds) for seconds in later)
        mean, over_runs = mean_and_deviation(means[arm.name])
        row = EpochTimes(
            arm=arm.name,
            runs=len(recorded),
            epochs=sum(map(len, later)),
            first=float(np.mean([first for first, *_ in recorded])) if min(map(len, recorded)) > 1 else None,
            mean=mean,
            over_epochs=math.sqrt(squares / degrees) if degrees else None,
            over_runs=over_runs,
            ratio=ratio_of_times(means[arm.name], means.get(baseline, []), itself=arm.name == baseline),
        )
        rows.append(row)
    return rows


def _list_steady_seconds(runs: Sequence[Record]) -> list[float]:
    return [seconds for run in runs if (seconds := steady_seconds(run)) is not None]


BATCH = ("batch.size", "batch.seconds", "batch.accumulate")


@dataclass(frozen=True)
class Scaling:
    """Epoch times of n runs with the same number of processes. In a series, only the number of processes varies.

    - series: keys and values that distinguish this series from other series, or "" if there is only one
    - device: GPU or CPU; batch: batch size of one process, as text
    - epoch_seconds: mean time of an epoch after the first; deviation: standard deviation over runs, or None if n is 1
    - audio_hours_per_second: training speed of all processes together
    - speed_up: epoch time with the fewest processes divided by this one; efficiency: speed_up divided by the ideal
    - price: price of an epoch in the currency of hardware.price_per_hour; None if no price is set
    """

    series: str
    device: str
    processes: int
    n: int
    batch: str
    epoch_seconds: float
    deviation: float | None
    audio_hours_per_second: float | None
    speed_up: Ratio
    efficiency: float
    price: float | None


def scaling(arms: Sequence[Arm]) -> list[Scaling]:
    """Return a row for each series and number of processes; empty if all runs have the same number of processes.

    Series in which each process has the same batch size (weak scaling) are preferred. If there are none, the batch size
    may depend on the number of processes (strong scaling).
    """
    runs = [run for arm in arms for run in arm.runs if steady_seconds(run)]
    series = _group_series(runs, ()) or _group_series(runs, BATCH)
    names = _name_series([next(iter(by_count.values()))[0] for by_count in series])
    return [
        _measure_scaling(name, count, runs, by_count[min(by_count)])
        for name, by_count in zip(names, series, strict=True)
        for count, runs in sorted(by_count.items())
    ]


def processes(run: Record) -> int:
    """Return the number of processes that trained a run, one per GPU.

    If the run did not record it, as at W&B, it is taken from the config, where gpus=auto counts as one process.
    """
    ranks, gpus = run.summary.ranks or run.config.get("ranks"), run.config.get("gpus")
    if ranks:
        return int(ranks)
    return gpus if isinstance(gpus, int) and gpus > 1 else 1


def device(run: Record) -> str:
    """Return the kind of device that trained a run: GPU or CPU."""
    gpus = run.config.get("gpus", "auto")
    return "GPU" if (run.environment.hardware.gpus if gpus == "auto" else int(gpus)) else "CPU"


def _group_series(runs: Sequence[Record], apart_from: tuple[str, ...]) -> list[dict[int, list[Record]]]:
    """Group runs that differ only in seed, number of processes and the keys in `apart_from`.

    A group contains runs by number of processes. Return only groups with several numbers of processes, and with a
    single batch size for each number.
    """
    groups: dict[str, dict[int, list[Record]]] = {}
    for run in runs:
        alike = json.dumps([device(run), _select_content(run, apart_from)], sort_keys=True)
        groups.setdefault(alike, {}).setdefault(processes(run), []).append(run)
    unambiguous = [group for group in groups.values() if all(len({*map(_spell_batch, g)}) == 1 for g in group.values())]
    return [group for group in unambiguous if len(group) > 1]


def _select_content(run: Record, apart_from: tuple[str, ...]) -> dict[str, object]:
    return {key: value for key, value in run.content.items() if not within(key, ["gpus", "ranks", *apart_from])}


def _name_series(runs: Sequence[Record]) -> list[str]:
    """Name each run after the keys and values in which the runs differ."""
    rests = [{**_select_content(run, BATCH), "device": device(run)} for run in runs]
    keys = [key for key in rests[0] if len({json.dumps(rest.get(key)) for rest in rests}) > 1] if rests else []
    return [", ".join(f"{key}={value_text(rest.get(key))}" for key in keys) for rest in rests]


def _spell_batch(run: Record) -> str:
    batch = run.config.get("batch") or {}
    times = f"{batch['accumulate']} × " if batch.get("accumulate", 1) > 1 else ""
    return f"{times}{batch.get('size')} utterances" if batch.get("size") else f"{times}{batch.get('seconds')} s"


def _measure_scaling(series: str, count: int, runs: Sequence[Record], fewest: Sequence[Record]) -> Scaling:
    seconds = _list_steady_seconds(runs)
    mean, deviation = mean_and_deviation(seconds)
    speed_up = ratio_of_times(_list_steady_seconds(fewest), seconds, itself=runs is fewest)
    assert speed_up is not None  # runs without times are in no series
    speeds = [speed for run in runs if (speed := run.summary.audio_hours_per_second)]
    prices = [price for run in runs if (price := price_per_hour(run)) is not None]
    return Scaling(
        series=series,
        device=device(runs[0]),
        processes=count,
        n=len(runs),
        batch=_spell_batch(runs[0]),
        epoch_seconds=mean,
        deviation=deviation,
        audio_hours_per_second=float(np.mean(speeds)) if speeds else None,
        speed_up=speed_up,
        efficiency=speed_up.value * processes(fewest[0]) / count,
        price=mean / 3600 * float(np.mean(prices)) if len(prices) == len(runs) else None,
    )


HOUR = 3600.0  # maximum seconds between the starts of two runs whose times are compared
WARNING = "runs of the arms were not trained in the same hour on the same machine, so times are not compared"


def ran_together(arms: Sequence[Arm]) -> bool:
    """Return whether every run started within an hour of a run of every other arm, on the same machine.

    Load from other programs changes times far more than most options do. Runs without a recorded start, as from W&B,
    are assumed to be comparable.
    """
    started = [[run for run in arm.runs if run.environment.started] for arm in arms]
    return all(
        any(_is_close(run, other) for other in others)
        for runs, others in itertools.permutations(started, 2)
        for run in runs
        if others
    )


def _is_close(run: Record, other: Record) -> bool:
    if run.environment.resumed or other.environment.resumed:
        return False  # a resumed run did not train at a single time
    starts = [datetime.fromisoformat(str(each.environment.started)).timestamp() for each in (run, other)]
    machines = [each.environment.hardware for each in (run, other)]
    same = len({(each.processor, each.cores, each.threads, *each.gpus) for each in machines}) == 1
    return same and abs(starts[0] - starts[1]) <= HOUR
