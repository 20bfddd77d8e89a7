"""The table of a comparison: a row per arm and test set."""

from collections.abc import Callable, Sequence

from asr_ablations.comparison.result import Arm, TableRow
from asr_ablations.runs.record import RunRecord
from asr_ablations.statistics.seeds import mean_and_deviation


def table_rows(arms: Sequence[Arm], sets: Sequence[str]) -> list[TableRow]:
    """The rows of all arms on all test sets, measured with the weights at the end of training."""
    return [_row(arm, name) for arm in arms for name in sets]


def _row(arm: Arm, name: str) -> TableRow:
    wer, wer_sd = _spread(arm, lambda run: final_value(run, name, "wer"))
    cer, cer_sd = _spread(arm, lambda run: final_value(run, name, "cer"))
    train, train_sd = _spread(arm, lambda run: run.summary.get("seconds", {}).get("train"))
    best, best_sd = _spread(arm, lambda run: run.summary.get("best_validation_wer"))
    last, last_sd = _spread(arm, _last_validation)
    return TableRow(
        arm=arm.name,
        set=name,
        n=len(arm.runs),
        wer=wer,
        wer_sd=wer_sd,
        cer=cer,
        cer_sd=cer_sd,
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
    )


def final_value(run: RunRecord, name: str, key: str) -> float | None:
    """A rate or count of a set in summary.json; None where the run did not record it."""
    value: float | None = run.summary.get("sets", {}).get(name, {}).get(key)
    return value


def validation_set(run: RunRecord) -> str | None:
    """The set whose WER chooses the best checkpoint: the first validation set."""
    sets = (run.config.get("data") or {}).get("validation") or []
    return str(sets[0]) if sets else None


def _last_validation(run: RunRecord) -> float | None:
    key = f"validation/{validation_set(run)}/wer"
    return next((value for row in reversed(run.metrics) if (value := row.get(key)) is not None), None)


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
