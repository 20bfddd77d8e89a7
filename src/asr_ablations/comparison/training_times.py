"""Training seconds per epoch, scaling over processes (Ambroszczyk2019 §2.1, §2.5), and which times are comparable."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from asr_ablations.comparison.time_to_accuracy import Ratio, ratio_of_times
from asr_verdicts.arms import Arm
from asr_verdicts.config import within
from asr_verdicts.confounds import value_text
from asr_verdicts.record import Record
from asr_verdicts.statistics.sample import mean_and_deviation

COLUMN = "train/epoch_seconds"
"""A column of metrics.csv: from the start of an epoch to its last batch, without validations."""


@dataclass(frozen=True)
class EpochTimes:
    """Seconds per epoch of an arm, without the first epoch. That one fills caches, tunes kernels, and has another order
    with order=sortagrad.

    - first: mean over runs of the first epoch; None if a run lacks later epochs, as then all values are of first epochs
    - epochs: number of later epochs; mean: of the runs' means
    - over_epochs: deviation within a run, pooled over runs; over_runs: deviation of the runs' means; None if undefined
    - ratio: to the baseline
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
    """Return the seconds of training batches in every epoch, in order; empty if not recorded."""
    return [value for row in run.metrics if (value := row.get(COLUMN)) is not None]


def steady_seconds(run: Record) -> float | None:
    """Return the mean from the second epoch on; for a single epoch, its seconds."""
    seconds = epoch_seconds(run)
    return float(np.mean(seconds[1:] or seconds)) if seconds else None


def epoch_times(arms: Sequence[Arm], baseline: str) -> list[EpochTimes]:
    """Return a row for each arm with recorded times."""
    means = {arm.name: _read_seconds(arm.runs) for arm in arms}
    return [_summarise_arm(arm, means, baseline) for arm in arms if means[arm.name]]


def _summarise_arm(arm: Arm, means: Mapping[str, list[float]], baseline: str) -> EpochTimes:
    recorded = [seconds for run in arm.runs if (seconds := epoch_seconds(run))]
    apart = all(len(seconds) > 1 for seconds in recorded)
    mean, over_runs = mean_and_deviation(means[arm.name])
    later = [seconds[1:] or seconds for seconds in recorded]
    degrees = sum(len(seconds) - 1 for seconds in later)
    squares = sum(float(np.var(seconds)) * len(seconds) for seconds in later)
    return EpochTimes(
        arm=arm.name,
        runs=len(recorded),
        epochs=sum(map(len, later)),
        first=float(np.mean([seconds[0] for seconds in recorded])) if apart else None,
        mean=mean,
        over_epochs=math.sqrt(squares / degrees) if degrees else None,
        over_runs=over_runs,
        ratio=ratio_of_times(means[arm.name], means.get(baseline, []), itself=arm.name == baseline),
    )


def _read_seconds(runs: Sequence[Record]) -> list[float]:
    return [seconds for run in runs if (seconds := steady_seconds(run)) is not None]


BATCH = ("batch.size", "batch.seconds", "batch.accumulate")


@dataclass(frozen=True)
class Scaling:
    """n runs with the same number of processes, in a series of otherwise equal runs.

    - series: its difference from other series, "" for the only one; device: GPU or CPU; batch: of one process, as text
    - epoch_seconds: mean over runs from the second epoch on; deviation: over runs, None for a single run
    - audio_hours_per_second: of all processes
    - speed_up: epoch time with the fewest processes over this one; efficiency: the same, divided by the process ratio
    - price: of an epoch, in the currency of hardware.price_per_hour; None without it
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


Runs = dict[int, list[Record]]
"""Runs by number of processes."""


def scaling(arms: Sequence[Arm]) -> list[Scaling]:
    """Return all series with several numbers of processes, sorted by number; empty without any.

    If the batch per process varies between numbers, as in strong scaling, the series is still shown, although the
    batch's effect cannot be separated.
    """
    runs = [run for arm in arms for run in arm.runs if steady_seconds(run)]
    series = _group_series(runs, ()) or _group_series(runs, BATCH)
    names = _name_series([next(iter(by_count.values()))[0] for by_count in series])
    return [
        _make(name, count, by_count) for name, by_count in zip(names, series, strict=True) for count in sorted(by_count)
    ]


def processes(run: Record) -> int:
    """Return the number of processes that trained together, one per GPU. It is taken from the run's record, or from the
    config if the record lacks it, as at W&B. gpus=auto counts as one.
    """
    ranks, gpus = run.summary.ranks or run.config.get("ranks"), run.config.get("gpus")
    if ranks:
        return int(ranks)
    return gpus if isinstance(gpus, int) and gpus > 1 else 1


def device(run: Record) -> str:
    """Return GPU or CPU."""
    gpus = run.config.get("gpus", "auto")
    available = run.environment.hardware.gpus
    return "GPU" if (available if gpus == "auto" else int(gpus)) else "CPU"


def _group_series(runs: Sequence[Record], apart_from: tuple[str, ...]) -> list[Runs]:
    """Group runs that only differ in number of processes, seed and `apart_from`; keep groups with several numbers."""
    groups: dict[str, Runs] = {}
    for run in runs:
        alike = json.dumps([device(run), _select_content(run, apart_from)], sort_keys=True)
        groups.setdefault(alike, {}).setdefault(processes(run), []).append(run)
    unambiguous = [group for group in groups.values() if all(len({*map(_spell_batch, g)}) == 1 for g in group.values())]
    return [group for group in unambiguous if len(group) > 1]


def _select_content(run: Record, apart_from: tuple[str, ...]) -> dict[str, object]:
    return {key: value for key, value in run.content.items() if not within(key, ["gpus", "ranks", *apart_from])}


def _name_series(runs: Sequence[Record]) -> list[str]:
    """Name each run by the keys and values that differ between them."""
    rests = [{**_select_content(run, BATCH), "device": device(run)} for run in runs]
    keys = [key for key in rests[0] if len({json.dumps(rest.get(key)) for rest in rests}) > 1] if rests else []
    return [", ".join(f"{key}={value_text(rest.get(key))}" for key in keys) for rest in rests]


def _spell_batch(run: Record) -> str:
    batch = run.config.get("batch") or {}
    times = f"{batch['accumulate']} × " if batch.get("accumulate", 1) > 1 else ""
    return f"{times}{batch.get('size')} utterances" if batch.get("size") else f"{times}{batch.get('seconds')} s"


def _make(series: str, count: int, by_count: Runs) -> Scaling:
    runs, fewest = by_count[count], min(by_count)
    seconds, base = _read_seconds(runs), _read_seconds(by_count[fewest])
    mean, deviation = mean_and_deviation(seconds)
    speed_up = ratio_of_times(base, seconds, itself=count == fewest)
    assert speed_up is not None  # runs without times are in no series
    speeds = [speed for run in runs if (speed := run.summary.audio_hours_per_second)]
    prices = [price for run in runs if (price := (run.config.get("hardware") or {}).get("price_per_hour")) is not None]
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
        efficiency=speed_up.value * fewest / count,
        price=mean / 3600 * float(np.mean(prices)) if len(prices) == len(runs) else None,
    )


HOUR = 3600.0
"""Maximum seconds between the starts of two runs whose times are compared."""
WARNING = "runs of the arms were not trained in the same hour on the same machine, so times are not compared"


def ran_together(arms: Sequence[Arm]) -> bool:
    """Return whether every run started within an hour of a run of each other arm, on the same machine.

    Other load on a machine changes times by far more than most choices do. Runs without a recorded start, as at W&B,
    are assumed to be comparable.
    """
    runs = {arm.name: [run for run in arm.runs if run.environment.started] for arm in arms}
    return all(
        any(_is_close(run, other) for other in others)
        for name, runs_of_arm in runs.items()
        for run in runs_of_arm
        for rest, others in runs.items()
        if rest != name and others
    )


def _is_close(run: Record, other: Record) -> bool:
    if run.environment.resumed or other.environment.resumed:
        return False  # a resumed run has two starts
    return abs(_read_start(run) - _read_start(other)) <= HOUR and _describe_machine(run) == _describe_machine(other)


def _read_start(run: Record) -> float:
    assert run.environment.started is not None
    return datetime.fromisoformat(run.environment.started).timestamp()


def _describe_machine(run: Record) -> tuple[object, ...]:
    hardware = run.environment.hardware
    return hardware.processor, hardware.cores, hardware.threads, tuple(hardware.gpus)
