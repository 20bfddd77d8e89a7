"""Whether validation loss tells which run has the lower WER: what Ambroszczyk2019 §2.1 assumes, and left open."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from asr_ablations.comparison.arm import Arm
from asr_ablations.comparison.metrics import LOSS, WER, Metric, different_losses, validation_set, validation_values
from asr_ablations.comparison.table import final_value
from asr_ablations.runs.record import RunRecord
from asr_ablations.statistics.spread import Correlation, spearman


@dataclass(frozen=True)
class Point:
    """A run: a validation loss in nats, and a WER as a fraction."""

    arm: str
    loss: float
    wer: float


@dataclass(frozen=True)
class LossAgainstWer:
    """What was set against what, over all runs; correlation: None with fewer than four runs, or without any spread."""

    name: str
    points: list[Point]
    correlation: Correlation | None


def loss_against_wer(arms: Sequence[Arm], test_sets: Sequence[str]) -> list[LossAgainstWer]:
    """The loss of the last weights on the first validation set against their WER on every test set, and the lowest loss
    of a validation against the lowest WER of one. Empty where runs minimise different losses, or recorded none.
    """
    runs = [(arm, run) for arm in arms for run in arm.runs]
    if len(different_losses([run for _, run in runs])) > 1:
        return []
    sets = [name for name in test_sets if name not in {validation_set(run) for _, run in runs}]
    last = [
        (
            f"last weights, WER on {name}",
            [_point(arm, _last_loss(run), final_value(run, name, WER.name)) for arm, run in runs],
        )
        for name in sets
    ]
    best = [_point(arm, _lowest(run, LOSS), _lowest(run, WER)) for arm, run in runs]
    measured = [*last, ("lowest of all validations", best)]
    return [_correlated(name, [point for point in points if point]) for name, points in measured if any(points)]


def _last_loss(run: RunRecord) -> float | None:
    name = validation_set(run)
    return None if name is None else final_value(run, name, LOSS.name)


def _lowest(run: RunRecord, metric: Metric) -> float | None:
    return min(validation_values(run, metric), default=None)


def _point(arm: Arm, loss: float | None, wer: float | None) -> Point | None:
    return None if loss is None or wer is None or not math.isfinite(loss) else Point(arm.name, loss, wer)


def _correlated(name: str, points: list[Point]) -> LossAgainstWer:
    return LossAgainstWer(name, points, spearman([point.loss for point in points], [point.wer for point in points]))
