"""The contracts of schedules and of stopping."""

import csv
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR

from asr_ablations.experiment.fit import TrainingRun
from asr_ablations.runs.reader import read_metrics
from tests.helpers.fits import fit
from tests.helpers.run_results import results, same, train
from tests.helpers.support import component, compose, group_options, tiny_overrides

PEAK = 0.4


def optimizer_at_peak(momentum: float = 0.0) -> torch.optim.Optimizer:
    return torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=PEAK, momentum=momentum)


def rates(make: Callable[..., Any], total: int) -> list[float]:
    """The rate of each of `total` optimizer steps; a schedule with a monitor sees a figure that falls ever less."""
    optimizer = optimizer_at_peak()
    schedule, result = make(optimizer, total_steps=total), []
    for step in range(total):
        result.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if len(result) < total:
            schedule.step(*([1 + 10 / (step + 1) ** 1.5] if hasattr(schedule, "monitor") else []))
    return result


@pytest.mark.parametrize("name", group_options("schedule"))
def test_rates_are_above_zero_and_never_above_the_optimizers(name: str) -> None:
    for total in (1, 2, 3, 100):
        assert all(0 < rate <= PEAK * (1 + 1e-9) for rate in rates(component("schedule", name), total))


def test_rates_are_torchs_own_and_those_of_the_formula() -> None:
    """torch counts the peak as step warm_up · total - 1, and its final divisor from the start instead of the peak."""
    total, warm_up = 101, 26 / 101
    options = {"pct_start": warm_up, "div_factor": 10, "final_div_factor": 100, "cycle_momentum": False}
    expected = rates(partial(OneCycleLR, max_lr=PEAK, **options), total)
    ours = component("schedule", "one_cycle", warm_up=25 / 100, start_divisor=10.0, end_divisor=1000.0)
    assert rates(ours, total) == pytest.approx(expected)
    result = rates(component("schedule", "exponential", end_divisor=50.0), 101)
    assert result == pytest.approx([PEAK * 50 ** (-step / 100) for step in range(101)])
    result = rates(component("schedule", "cosine", warm_up=0.2, end_divisor=50.0), 101)
    assert result[:21] == pytest.approx([PEAK * (step + 1) / 21 for step in range(21)])
    torchs = partial(CosineAnnealingLR, T_max=80, eta_min=PEAK / 50)
    assert result[20:] == pytest.approx(rates(lambda optimizer, total_steps: torchs(optimizer), 81))


def test_newbob_decays_after_an_epoch_without_progress() -> None:
    """Against the epoch before, not the best one, as RETURNN's NewbobRelative."""
    for figures, decays in (
        ([5.0, 4.0, 3.0, 2.0], [0, 0, 0, 0]),
        ([5.0, 4.96, 4.9, 5.0], [0, 1, 1, 2]),  # a fall of 0.8 % is too little, one of 1.2 % is not
        ([5.0, float("nan"), 4.0], [0, 1, 2]),
        ([0.0, 0.0], [0, 1]),
    ):
        optimizer, result = optimizer_at_peak(), []
        schedule = component("schedule", "newbob", factor=0.3, threshold=0.01)(optimizer, total_steps=50)
        for figure in figures:
            optimizer.step()
            schedule.step(figure)
            result.append(optimizer.param_groups[0]["lr"])
        assert result == pytest.approx([PEAK * 0.3**n for n in decays])


def test_newbob_is_stepped_with_the_validation_figure(tiny_corpus: Path, tmp_path: Path) -> None:
    """Once an epoch, before the checkpoint is written; the rate of an epoch is that of the figures before it."""
    options = ("schedule=newbob", "schedule.monitor=cer", "schedule.threshold=0.02", "max_epochs=4")
    task = fit(tiny_corpus, tmp_path, *options)
    with (tmp_path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    figures = [float(row[name]) for row in rows if row.get(name := "validation/dev/cer")]
    decays = 0
    for epoch in range(4):
        decays += epoch > 0 and not figures[epoch] < 0.98 * figures[epoch - 1]
        kept = torch.load(tmp_path / f"epoch={epoch}.ckpt", weights_only=True)
        assert kept["lr_schedulers"][0]["decays"] == decays
        assert kept["optimizer_states"][0]["param_groups"][0]["lr"] == pytest.approx(3e-3 * 0.5**decays)
    assert task.global_step == 12
    assert len(figures) == 4


def test_it_ends_after_so_many_epochs_in_a_row_without_a_lower_figure() -> None:
    for figures, keys, end in (
        ([3.0, 2.0, 2.5, 1.9, 1.95, 1.9], {"patience": 2}, 6),  # as low as the lowest is not lower
        ([3.0, 2.0, 2.5, 1.9, 1.95, 1.8], {"patience": 2}, 0),
        ([3.0, 2.0, 2.5], {"patience": 1}, 3),
        ([3.0, 2.9, 2.8, 2.7], {"patience": 3, "threshold": 0.5}, 4),  # each is little lower
        ([3.0, 2.6, 2.4, 2.2], {"patience": 3, "threshold": 0.5}, 0),  # the third is, than the lowest that counted
        ([float("nan"), 2.0, float("nan"), float("nan")], {"patience": 2}, 4),
    ):
        rule, ended = component("stopping", "patience", **keys), 0
        module: Any = SimpleNamespace(validation_sets=["dev", "other"])
        for epoch, figure in enumerate(figures, start=1):
            trainer: Any = SimpleNamespace(callback_metrics={"validation/dev/loss": figure}, should_stop=False)
            rule.on_train_epoch_end(trainer, module)
            ended = ended or epoch * trainer.should_stop
        assert ended == end


def test_a_run_ends_is_evaluated_and_if_it_was_killed_between_trains_no_further(
    tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first epoch is the lowest, and no other is so much lower: the third is the last."""
    small = ["width=8", "layers=1", "gpus=0", "logger=csv", "max_epochs=5", "sweep=s"]
    rule = ["stopping=patience", "stopping.patience=2", "stopping.threshold=99", "stopping.monitor=wer"]
    words = [*tiny_overrides(tiny_corpus), *small, *rule]
    folder = train(compose(*words, f"outputs={tmp_path / 'undisturbed'}"))
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["epochs"] == 3
    assert summary["sets"]["test"]["wer"] >= 0
    assert len([row for row in read_metrics(folder) if row.get("validation/dev/wer") is not None]) == 3
    cfg = compose(*words, f"outputs={tmp_path / 'killed'}")

    def fail(run: Any) -> None:
        raise RuntimeError("the machine is gone")

    with monkeypatch.context() as patched:
        patched.setattr(TrainingRun, "_evaluate", fail)
        with pytest.raises(RuntimeError, match="the machine is gone"):
            train(cfg)
    result, expected = results(train(cfg)), results(folder)
    assert [key for key in expected if not same(result[key], expected[key])] == []
