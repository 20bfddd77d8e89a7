"""The columns of the result tables, and the rows built from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.metrics import CER, CER_LONGER, LOSS, WER, Metric, validation_sets
from asr_verdicts.record import Record
from asr_verdicts.statistics.sample import mean_and_deviation

# values of an arm on a set, by column name: arm, set, n (number of runs), means, and standard deviations with the
# suffix _sd; None if no run recorded the value
TableRow: TypeAlias = dict[str, str | int | float | None]


@dataclass(frozen=True)
class Column:
    """A column with the mean over an arm's runs and, if `deviation` is set, their standard deviation.

    - key: name of the column in files
    - read: function that returns the value of a run on a set
    - heading: heading in printed tables; "" if only files have the column
    - places: number of digits after the decimal point, if `metric` is None
    - metric: metric that formats the values
    - always: whether tables show the column even if no run has a value
    """

    key: str
    read: Callable[[Record, str], float | None]
    heading: str = ""
    places: int = 0
    metric: Metric | None = None
    deviation: bool = False
    always: bool = True


def _count_column(key: str, heading: str) -> Column:
    return Column(key, lambda run, name: run.value(name, key), heading)


def _rate_column(metric: Metric, *, always: bool = True) -> Column:
    return Column(
        metric.name,
        lambda run, name: run.value(name, metric.name),
        metric.heading,
        metric=metric,
        deviation=True,
        always=always,
    )


RATE_COLUMNS = (
    _rate_column(WER),
    _rate_column(CER),
    _rate_column(CER_LONGER, always=False),
    _rate_column(LOSS, always=False),
    _count_column("substitutions", "S"),
    _count_column("deletions", "D"),
    _count_column("insertions", "I"),
    _count_column("words", ""),
    _count_column("utterances", ""),
)  # in the order of columns in files; tables show CER (longer) and the loss only if a run has them


def rate_rows(comparison: Comparison, columns: Sequence[Column] = RATE_COLUMNS) -> list[TableRow]:
    """Return a row for each arm and test set, measured with the final weights of training."""
    return [_row(arm, name, columns) for arm in comparison.arms for name in comparison.sets]


def validation_rows(comparison: Comparison, columns: Sequence[Column] = RATE_COLUMNS) -> list[TableRow]:
    """Return a row for each arm and validation set. A set on which the arms' losses are compared is left out."""
    sets = [name for name in validation_sets(comparison.runs) if name not in comparison.sets]
    return [_row(arm, name, columns) for arm in comparison.arms for name in sets]


def _row(arm: Arm, name: str, columns: Sequence[Column]) -> TableRow:
    row: TableRow = {"arm": arm.name, "set": name, "n": len(arm.runs)}
    for column in columns:
        values = [float(value) for run in arm.runs if (value := column.read(run, name)) is not None]
        mean, deviation = mean_and_deviation(values) if values else (None, None)
        if column.deviation:
            row |= {column.key: mean, f"{column.key}_sd": deviation}
        else:
            row[column.key] = _mean(values)
    return row


def _mean(values: Sequence[float]) -> float | int | None:
    """Return the mean, as an int if it is a whole number; None if there are no values."""
    mean = sum(values) / len(values) if values else None
    return int(mean) if mean is not None and mean.is_integer() else mean


def value_of(row: TableRow, key: str) -> float | int | None:
    """Return the number in a column of a row; None if no run recorded it."""
    value = row.get(key)
    return None if isinstance(value, str) else value
