"""The table of a comparison: one row an arm and test set."""

from collections.abc import Callable, Sequence
from typing import Any

from asr_ablations.comparison.result import Arm
from asr_ablations.runs.record import RunRecord
from asr_ablations.statistics.seeds import mean_and_deviation


def table_rows(arms: Sequence[Arm], sets: Sequence[str]) -> list[dict[str, Any]]:
    """Means over seeds of the last weights; None for what no run of the arm recorded. Rates are fractions."""
    return [_row(arm, name) for arm in arms for name in sets]


def _row(arm: Arm, name: str) -> dict[str, Any]:
    def final(key: str) -> Callable[[RunRecord], Any]:
        return lambda run: run.summary.get("sets", {}).get(name, {}).get(key)

    row: dict[str, Any] = {"arm": arm.name, "set": name, "n": len(arm.runs)}
    for rate in ("wer", "cer"):
        row[rate], row[f"{rate}_sd"] = _spread(arm, final(rate))
    for count in ("substitutions", "deletions", "insertions", "words", "utterances"):
        row[count] = _mean(arm, final(count))
    row["parameters"] = _mean(arm, lambda run: run.summary.get("parameters"))
    row["epochs"] = _mean(arm, lambda run: run.summary.get("epochs"))
    row["steps"] = _mean(arm, lambda run: run.summary.get("steps"))
    row["audio_hours"] = _mean(arm, lambda run: run.summary.get("audio_hours_seen"))
    row["train_seconds"], row["train_seconds_sd"] = _spread(arm, _train_seconds)
    row["best_validation_wer"], row["best_validation_wer_sd"] = _spread(arm, _best_validation)
    row["last_validation_wer"], row["last_validation_wer_sd"] = _spread(arm, _last_validation)
    return row


def _train_seconds(run: RunRecord) -> float | None:
    return run.summary.get("seconds", {}).get("train")


def _best_validation(run: RunRecord) -> float | None:
    return run.summary.get("best_validation_wer")


def _last_validation(run: RunRecord) -> float | None:
    values = validation_values(run, "wer")
    return values[-1] if values else None


def validation_set(run: RunRecord) -> str | None:
    """The set whose WER chooses the best checkpoint: the first of validation."""
    sets = (run.config.get("data") or {}).get("validation") or []
    return str(sets[0]) if sets else None


def validation_values(run: RunRecord, metric: str) -> list[float]:
    """The metric of every validation on that set."""
    key = f"validation/{validation_set(run)}/{metric}"
    return [value for row in run.metrics if (value := row.get(key)) is not None]


def _known(arm: Arm, read: Callable[[RunRecord], Any]) -> list[float]:
    return [float(value) for run in arm.runs if (value := read(run)) is not None]


def _mean(arm: Arm, read: Callable[[RunRecord], Any]) -> float | int | None:
    values = _known(arm, read)
    if not values:
        return None
    mean = sum(values) / len(values)
    return int(mean) if mean.is_integer() else mean


def _spread(arm: Arm, read: Callable[[RunRecord], Any]) -> tuple[float | None, float | None]:
    values = _known(arm, read)
    return mean_and_deviation(values) if values else (None, None)
