"""The columns of the table of training, and of table.csv behind the rates."""

from collections.abc import Callable, Sequence

from asr_ablations.comparison.validation_costs import validation_values
from asr_verdicts.metrics import LOSS, WER, Metric
from asr_verdicts.record import Record
from asr_verdicts.table_columns import Column


def _validation(which: str, metric: Metric, read: Callable[[Record], float | None]) -> Column:
    return Column(
        f"{which}_validation_{metric.name}",
        lambda run, _: read(run),
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

TRAINING_COLUMNS = (
    Column("parameters", lambda run, _: run.summary.parameters, "parameters"),
    Column("epochs", lambda run, _: run.summary.epochs, "epochs", 1),
    Column("steps", lambda run, _: run.summary.steps, "steps", 1),
    Column("audio_hours", lambda run, _: run.summary.audio_hours_seen, "audio h", 2),
    Column(TRAIN_SECONDS, lambda run, _: run.summary.seconds.get("train"), "train s", 1, deviation=True),
    Column(
        "training_loss",
        lambda run, _: training_loss(run),
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
"""In the order of the files; the training loss is shown if a run has it."""


def training_loss(run: Record) -> float | None:
    """The mean of the training loss over the batches of the last epoch, in nats; None if it was not recorded."""
    return _last([value for row in run.metrics if (value := row.get(TRAINING_LOSS)) is not None])
