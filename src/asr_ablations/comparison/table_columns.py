"""The columns of the result tables, each named once, and the rows that they make."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.metrics import CER, CER_LONGER, LOSS, WER, Metric, validation_values
from asr_ablations.runs.record import RunRecord
from asr_ablations.statistics.sample import mean_and_deviation

TableRow: TypeAlias = dict[str, str | int | float | None]
"""An arm on a set by column: the arm, the set, n runs, means, and deviations under `_sd`; None: no run recorded it."""


@dataclass(frozen=True)
class Column:
    """A column: the mean over the runs of an arm, and, with `deviation`, their standard deviation.

    key: in the files; read: the value of a run on a set; table: the one that shows the column,
    None for a column of the files alone; heading: there; places: digits after the point, where `metric` does not say.
    metric: whose unit the values have, with rates as fractions. always: shown although no run has a value.
    """

    key: str
    read: Callable[[RunRecord, str], float | None]
    table: Literal["rates", "training"] | None = None
    heading: str = ""
    places: int = 0
    metric: Metric | None = None
    deviation: bool = False
    always: bool = True


def _of_set(key: str, heading: str) -> Column:
    return Column(key, lambda run, name: run.value(name, key), "rates" if heading else None, heading)


def _rate(metric: Metric, *, always: bool = True) -> Column:
    return Column(
        metric.name,
        lambda run, name: run.value(name, metric.name),
        "rates",
        metric.heading,
        metric=metric,
        deviation=True,
        always=always,
    )


def _validation(which: str, metric: Metric, read: Callable[[RunRecord], float | None]) -> Column:
    return Column(
        f"{which}_validation_{metric.name}",
        lambda run, _: read(run),
        "training",
        f"{which} validation {metric.heading}",
        metric=metric,
        deviation=True,
        always=metric is WER,
    )


def _last(values: Sequence[float]) -> float | None:
    return values[-1] if values else None


TRAINING_LOSS = "train/loss_epoch"
"""A column of metrics.csv: the mean over the batches of an epoch, in nats."""
TRAIN_SECONDS = "train_seconds"
TIMES = (TRAIN_SECONDS, f"{TRAIN_SECONDS}_sd")
"""The columns that depend on the machine and its load."""

COLUMNS = (
    _rate(WER),
    _rate(CER),
    _rate(CER_LONGER, always=False),
    _rate(LOSS, always=False),
    _of_set("substitutions", "S"),
    _of_set("deletions", "D"),
    _of_set("insertions", "I"),
    _of_set("words", ""),
    _of_set("utterances", ""),
    Column("parameters", lambda run, _: run.summary.parameters, "training", "parameters"),
    Column("epochs", lambda run, _: run.summary.epochs, "training", "epochs", 1),
    Column("steps", lambda run, _: run.summary.steps, "training", "steps", 1),
    Column("audio_hours", lambda run, _: run.summary.audio_hours_seen, "training", "audio h", 2),
    Column(TRAIN_SECONDS, lambda run, _: run.summary.seconds.get("train"), "training", "train s", 1, deviation=True),
    Column(
        "training_loss",
        lambda run, _: training_loss(run),
        "training",
        f"training {LOSS.heading}",
        metric=LOSS,
        deviation=True,
        always=False,
    ),
    _validation("best", WER, lambda run: run.summary.best_validation_wer),
    _validation("last", WER, lambda run: _last(validation_values(run, WER))),
    _validation("best", LOSS, lambda run: min(validation_values(run, LOSS), default=None)),
    _validation("last", LOSS, lambda run: _last(validation_values(run, LOSS))),
)
"""In the order of the files; the losses and the longer CER are shown where a run has them."""


def training_loss(run: RunRecord) -> float | None:
    """The mean of the training loss over the batches of the last epoch, in nats; None if it was not recorded."""
    return _last([value for row in run.metrics if (value := row.get(TRAINING_LOSS)) is not None])


def table_rows(arms: Sequence[Arm], sets: Sequence[str]) -> list[TableRow]:
    """The rows of all arms on all these sets, measured with the weights at the end of training."""
    return [_row(arm, name) for arm in arms for name in sets]


def _row(arm: Arm, name: str) -> TableRow:
    row: TableRow = {"arm": arm.name, "set": name, "n": len(arm.runs)}
    for column in COLUMNS:
        values = [float(value) for run in arm.runs if (value := column.read(run, name)) is not None]
        mean, deviation = mean_and_deviation(values) if values else (None, None)
        if column.deviation:
            row |= {column.key: mean, f"{column.key}_sd": deviation}
        else:
            row[column.key] = _whole(values)
    return row


def _whole(values: Sequence[float]) -> float | int | None:
    """The mean; a whole number where it is one."""
    mean = sum(values) / len(values) if values else None
    return int(mean) if mean is not None and mean.is_integer() else mean


def value_of(row: TableRow, key: str) -> float | int | None:
    """The number in a column; None where no run recorded it."""
    value = row.get(key)
    return None if isinstance(value, str) else value
