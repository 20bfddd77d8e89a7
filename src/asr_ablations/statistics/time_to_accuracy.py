"""What a run has cost when it reaches an accuracy, and how accurate it is at a given cost."""

import math
from collections.abc import Sequence
from statistics import median

Row = dict[str, float | None]

VALIDATIONS = 3
"""e of papers/004 §4.1.2: the median over so many validations has to reach the target, so that it has been kept."""

AXES = {"seconds": "time/seconds", "steps": "step", "audio_hours": "time/audio_hours", "epochs": "epoch"}
"""What can be spent, and its column in metrics.csv. Steps and epochs are counted there from 0."""


def validations(metrics: Sequence[Row], key: str) -> list[Row]:
    """One row a validation: `value`, and what had been spent by then (None where it was not recorded)."""
    found = []
    for row in metrics:
        value = row.get(key)
        if value is None or math.isnan(value):
            continue
        spent = {axis: row.get(column) for axis, column in AXES.items()}
        for counted in ("steps", "epochs"):
            spent[counted] = None if spent[counted] is None else spent[counted] + 1  # type: ignore[operator]
        found.append({"value": value, **spent})
    return found


def kept_accuracies(rows: Sequence[Row], last: int = VALIDATIONS) -> list[float]:
    """The median of the last `last` validations, from the first that has so many behind it."""
    values = [float(row["value"]) for row in rows]  # type: ignore[arg-type]
    return [median(values[end - last : end]) for end in range(last, len(values) + 1)]


def time_to_accuracy(rows: Sequence[Row], target: float, last: int = VALIDATIONS) -> Row | None:
    """TTA(target, last): the validation at which the median of the last ones is first at the target or below; None
    where that never happens (papers/004 §4.1.2).
    """
    for index, accuracy in enumerate(kept_accuracies(rows, last)):
        if accuracy <= target:
            return rows[index + last - 1]
    return None


def at_budget(rows: Sequence[Row], axis: str, budget: float) -> float | None:
    """The value of the last validation that had spent no more than the budget."""
    within = [row["value"] for row in rows if (row[axis] is not None and row[axis] <= budget)]  # type: ignore[operator]
    return within[-1] if within else None


def spent_by_all(curves: Sequence[Sequence[Row]], axis: str) -> float | None:
    """The most that every curve has spent: what all can be compared at. None where one has not recorded it."""
    ends = [curve[-1][axis] if curve else None for curve in curves]
    return None if not ends or any(end is None for end in ends) else min(ends)  # type: ignore[type-var]


def choose_targets(curves: Sequence[Sequence[Row]], last: int = VALIDATIONS) -> list[float]:
    """Up to three targets: what every run reaches, what half of them reach, what only the best one does; rounded up to
    thousandths.
    """
    floors = sorted(min(found) for curve in curves if (found := kept_accuracies(curve, last)))
    if not floors:
        return []
    chosen = (floors[-1], floors[len(floors) // 2], floors[0])
    return sorted({math.ceil(floor * 1000) / 1000 for floor in chosen}, reverse=True)
