"""The tables of a comparison: a row per arm and set."""

from collections.abc import Callable, Sequence

from asr_ablations.comparison.arm import Arm
from asr_ablations.comparison.metrics import LOSS, WER, validation_values
from asr_ablations.comparison.result import TableRow
from asr_ablations.runs.record import RunRecord
from asr_ablations.statistics.seeds import mean_and_deviation


def table_rows(arms: Sequence[Arm], sets: Sequence[str]) -> list[TableRow]:
    """The rows of all arms on all these sets, measured with the weights at the end of training."""
    return [_row(arm, name) for arm in arms for name in sets]


def _row(arm: Arm, name: str) -> TableRow:
    wer, wer_sd = _spread(arm, lambda run: final_value(run, name, "wer"))
    cer, cer_sd = _spread(arm, lambda run: final_value(run, name, "cer"))
    longer, longer_sd = _spread(arm, lambda run: final_value(run, name, "cer_longer"))
    train, train_sd = _spread(arm, lambda run: run.summary.get("seconds", {}).get("train"))
    best, best_sd = _spread(arm, lambda run: run.summary.get("best_validation_wer"))
    last, last_sd = _spread(arm, lambda run: _last(validation_values(run, WER)))
    loss, loss_sd = _spread(arm, lambda run: final_value(run, name, "loss"))
    best_loss, best_loss_sd = _spread(arm, lambda run: min(validation_values(run, LOSS), default=None))
    last_loss, last_loss_sd = _spread(arm, lambda run: _last(validation_values(run, LOSS)))
    return TableRow(
        arm=arm.name,
        set=name,
        n=len(arm.runs),
        wer=wer,
        wer_sd=wer_sd,
        cer=cer,
        cer_sd=cer_sd,
        cer_longer=longer,
        cer_longer_sd=longer_sd,
        loss=loss,
        loss_sd=loss_sd,
        substitutions=_mean(arm, lambda run: final_value(run, name, "substitutions")),
        deletions=_mean(arm, lambda run: final_value(run, name, "deletions")),
        insertions=_mean(arm, lambda run: final_value(run, name, "insertions")),
        words=_mean(arm, lambda run: final_value(run, name, "words")),
        utterances=_mean(arm, lambda run: final_value(run, name, "utterances")),
        parameters=_mean(arm, lambda run: run.summary.get("parameters")),
        epochs=_mean(arm, lambda run: run.summary.get("epochs")),
        steps=_mean(arm, lambda run: run.summary.get("steps")),
        audio_hours=_mean(arm, lambda run: run.summary.get("audio_hours_seen")),
        train_seconds=train,
        train_seconds_sd=train_sd,
        best_validation_wer=best,
        best_validation_wer_sd=best_sd,
        last_validation_wer=last,
        last_validation_wer_sd=last_sd,
        best_validation_loss=best_loss,
        best_validation_loss_sd=best_loss_sd,
        last_validation_loss=last_loss,
        last_validation_loss_sd=last_loss_sd,
    )


def final_value(run: RunRecord, name: str, key: str) -> float | None:
    """A rate, loss or count of a set in summary.json; None where the run did not record it."""
    value: float | None = run.summary.get("sets", {}).get(name, {}).get(key)
    return value


def _last(values: Sequence[float]) -> float | None:
    return values[-1] if values else None


def _known(arm: Arm, read: Callable[[RunRecord], float | None]) -> list[float]:
    return [float(value) for run in arm.runs if (value := read(run)) is not None]


def _mean(arm: Arm, read: Callable[[RunRecord], float | None]) -> float | int | None:
    values = _known(arm, read)
    if not values:
        return None
    mean = sum(values) / len(values)
    return int(mean) if mean.is_integer() else mean


def _spread(arm: Arm, read: Callable[[RunRecord], float | None]) -> tuple[float | None, float | None]:
    values = _known(arm, read)
    return mean_and_deviation(values) if values else (None, None)
