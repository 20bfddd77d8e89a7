"""The rank correlation of validation loss and WER over runs."""

from pathlib import Path

import pytest
from scipy import stats

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.derived_tables import loss_against_wer
from asr_ablations.runs.record import RunRecord, Summary, parse

LOSSES, RATES = [0.9, 0.5, 0.7, 0.4, 0.6], [0.31, 0.22, 0.30, 0.25, 0.21]


def run(loss: float | None, wer: float, target: str = "losses.CTC") -> RunRecord:
    """A run whose validations rise again at the end: the lowest is not the last."""
    sets = {"dev": {"loss": loss, "wer": wer}, "test": {"loss": 9.0, "wer": wer}}
    metrics = [{"validation/dev/loss": value, "validation/dev/wer": wer / 2} for value in (5.0, 0.1 + wer, 3.0)]
    config = {"seed": 0, "data": {"validation": ["dev"]}, "loss": {"_target_": target}}
    return RunRecord(
        Path("run"), config, [], parse(Summary, {"sets": sets, "test_sets": []}), [dict(row) for row in metrics]
    )


def arms(losses: list[float], rates: list[float]) -> list[Arm]:
    runs = [run(loss, wer) for loss, wer in zip(losses, rates, strict=True)]
    return [Arm("a", runs[:2]), Arm("b", runs[2:])]


def test_the_last_weights_over_all_runs_of_all_arms() -> None:
    last, _ = loss_against_wer(arms(LOSSES, RATES), ["dev", "test"])
    assert last.name == "last weights, WER on test"
    assert [(point.arm, point.loss, point.wer) for point in last.points[1:3]] == [("a", 0.5, 0.22), ("b", 0.7, 0.30)]
    assert last.correlation is not None
    assert last.correlation.value == pytest.approx(stats.spearmanr(LOSSES, RATES).statistic)
    assert last.correlation.n == 5


def test_the_lowest_of_all_validations() -> None:
    """The lowest loss of these runs is 0.1 above their WER, so that the ranks are the same."""
    *_, best = loss_against_wer(arms(LOSSES, RATES), ["test"])
    assert [point.loss for point in best.points] == pytest.approx([0.1 + wer for wer in RATES])
    assert [point.wer for point in best.points] == [wer / 2 for wer in RATES]
    assert best.correlation is not None
    assert best.correlation.value == pytest.approx(1)


def test_too_few_runs_have_points_and_no_correlation() -> None:
    last, _ = loss_against_wer(arms(LOSSES[:3], RATES[:3]), ["test"])
    assert (len(last.points), last.correlation) == (3, None)


def test_losses_that_mean_different_things_are_not_ranked() -> None:
    runs = [
        run(loss, wer, "losses.CTC" if loss > 0.5 else "losses.Framewise")
        for loss, wer in zip(LOSSES, RATES, strict=True)
    ]
    assert loss_against_wer([Arm("a", runs)], ["test"]) == []


def test_a_run_without_a_finite_loss_is_no_point() -> None:
    runs = [run(None, 0.3), *(run(loss, wer) for loss, wer in zip(LOSSES, RATES, strict=True))]
    assert len(loss_against_wer([Arm("a", runs)], ["test"])[0].points) == 5
