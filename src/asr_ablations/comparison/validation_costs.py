"""The cost of a run until it reaches an accuracy, and its accuracy at a given cost."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, NamedTuple, TypedDict

import numpy as np

from asr_verdicts.metrics import Metric, validation_set
from asr_verdicts.record import Record
from asr_verdicts.statistics.distributions import t_bound
from asr_verdicts.statistics.estimate import over_seeds, run_noise
from asr_verdicts.statistics.intervals import Range


def ratio(arm: Sequence[float], baseline: Sequence[float], level: float = 0.05) -> Range | None:
    """The arm's geometric mean over the baseline's, with an interval of 1 − `level`; None below two values of each, and
    where no noise was measured.

    arm, baseline: what each run took, such as seconds of an epoch or seconds until an accuracy. A time is multiplied
    by what disturbs it, so the interval is Welch's on the scale of logarithms. A run that never gets there has no
    time: leaving it out would compare the fast ones only, so the caller has to give none at all for such an arm.

    Raises ValueError for a value that is not above 0.
    """
    if any(value <= 0 for value in (*arm, *baseline)):
        raise ValueError(f"times must be above 0, not {min([*arm, *baseline])}")
    if min(len(arm), len(baseline)) < 2:
        return None
    logs = [np.log(values).tolist() for values in (arm, baseline)]
    noise = over_seeds([run_noise(values) for values in logs])
    if not noise.standard_error:
        return None
    middle = float(np.mean(logs[0]) - np.mean(logs[1]))
    half = t_bound(level / 2, noise.degrees) * noise.standard_error
    return Range(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


VALIDATIONS = 3
"""e of Baunsgaard2020 §4.1.2: the median of e validations has to reach the target, so that it is no accident."""

Axis = Literal["seconds", "steps", "audio_hours", "epochs"]
"""The costs of a training."""

AXES: dict[Axis, str] = {
    "seconds": "time/seconds",
    "steps": "step",
    "audio_hours": "time/audio_hours",
    "epochs": "epoch",
}
"""The column of metrics.csv for each axis. Steps and epochs are counted there from 0."""


@dataclass(frozen=True)
class Validation:
    """The value of a metric at a validation, and what the run had spent by then; None where it was not recorded."""

    value: float
    spent: Mapping[Axis, float | None]


def validations(metrics: Sequence[Mapping[str, float | None]], key: str) -> list[Validation]:
    """Every validation that logged the metric `key`, from the rows of metrics.csv."""
    rows = ((value, row) for row in metrics if (value := row.get(key)) is not None and not math.isnan(value))
    return [Validation(value, {axis: _spent(row, axis) for axis in AXES}) for value, row in rows]


def _spent(row: Mapping[str, float | None], axis: Axis) -> float | None:
    spent = row.get(AXES[axis])
    return spent if spent is None or axis not in ("steps", "epochs") else spent + 1


def running_medians(curve: Sequence[Validation], last: int = VALIDATIONS) -> list[float]:
    """The median of the last `last` values at each validation, from the first with that many."""
    values = [validation.value for validation in curve]
    return [median(values[end - last : end]) for end in range(last, len(values) + 1)]


def time_to_accuracy(curve: Sequence[Validation], target: float, last: int = VALIDATIONS) -> Validation | None:
    """TTA(target, last): the first validation at which the median of the last ones is at the target or below; None
    where that never happens (Baunsgaard2020 §4.1.2).
    """
    for index, accuracy in enumerate(running_medians(curve, last)):
        if accuracy <= target:
            return curve[index + last - 1]
    return None


def at_budget(curve: Sequence[Validation], axis: Axis, budget: float) -> float | None:
    """The value of the last validation that had spent no more than the budget; None without any."""
    within = [point.value for point in curve if (spent := point.spent[axis]) is not None and spent <= budget]
    return within[-1] if within else None


def spent_by_all(curves: Sequence[Sequence[Validation]], axis: Axis) -> float | None:
    """The most that every curve has spent, at which all can be compared; None where a curve has not recorded it."""
    ends = [curve[-1].spent[axis] if curve else None for curve in curves]
    known = [end for end in ends if end is not None]
    return min(known) if known and len(known) == len(ends) else None


def choose_targets(curves: Sequence[Sequence[Validation]], last: int = VALIDATIONS) -> list[float]:
    """Up to three targets: what every run reaches, what half of the runs reach, and what only the best run reaches;
    rounded up to thousandths.
    """
    floors = sorted(min(medians) for curve in curves if (medians := running_medians(curve, last)))
    if not floors:
        return []
    chosen = (floors[-1], floors[len(floors) // 2], floors[0])
    return sorted({math.ceil(floor * 1000) / 1000 for floor in chosen}, reverse=True)


@dataclass(frozen=True)
class TimeToAccuracy:
    """The cost of a run until `metric` on the validation set reached `target`; None: it never did.

    chosen: the target was not named beforehand, but chosen from these runs' own curves. seconds and hours of
    audio of training; cost: in the currency of hardware.price_per_hour, None without a price.
    """

    arm: str
    seed: int
    metric: str
    target: float
    seconds: float | None
    steps: float | None
    audio_hours: float | None
    epochs: float | None
    cost: float | None = None
    chosen: bool = False


class EqualCost(TypedDict):
    """The metric of an arm at validation when each run had spent `budget` on an axis: mean, deviation over n seeds."""

    arm: str
    axis: Axis
    budget: float
    mean: float
    deviation: float | None
    n: int


class Ratio(NamedTuple):
    """A ratio of geometric means with its 95 % interval over runs; None where a side has a single run."""

    value: float
    low: float | None
    high: float | None


def ratio_of_times(arm: Sequence[float], baseline: Sequence[float], *, itself: bool = False) -> Ratio | None:
    """The time of an arm's runs over the time of the baseline's runs, in any unit; None without times, or for a time
    of 0. itself: both are the same runs, whose ratio is 1 without any doubt.
    """
    if min(arm, default=0) <= 0 or min(baseline, default=0) <= 0:
        return None
    import numpy as np

    known = None if itself else ratio(arm, baseline)
    if known is None:
        return Ratio(float(np.exp(np.mean(np.log(arm)) - np.mean(np.log(baseline)))), None, None)
    return Ratio(known.value, known.low, known.high)


def ratio_text(ratio: Ratio | None) -> str:
    """The ratio with its interval, where it has one."""
    if ratio is None:
        return "NA"
    interval = "" if ratio.low is None or ratio.high is None else f" ({ratio.low:.2f} to {ratio.high:.2f})"
    return f"{ratio.value:.2f}{interval}"


def validation_values(run: Record, metric: Metric) -> list[float]:
    """The metric at every validation on the first validation set, in order."""
    key = metric.curve_key(validation_set(run))
    return [value for row in run.metrics if (value := row.get(key)) is not None]
