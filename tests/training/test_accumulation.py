"""Updates over several batches: the same weights, schedule and records as by hand."""

import csv
import math
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from asr_ablations.config.build import build
from asr_ablations.training.assembly import assemble, trainer
from asr_ablations.training.callbacks.metrics_table import StepLosses
from asr_ablations.training.task import CTCTask
from tests.helpers.support import compose, tiny_overrides

SMALL = (
    "width=8",
    "layers=1",
    "gpus=0",
    "logger=csv",
    "max_epochs=2",
    "dropout=0",
    "optimizer=sgd",
    "gradient.limit=0.5",
)
"""Two epochs of three batches: with two batches an update, the second update of an epoch is of one batch."""


def fitted(corpus: Path, folder: Path, *overrides: str, max_steps: int = -1) -> tuple[CTCTask, pl.Trainer]:
    cfg = compose(*SMALL, *tiny_overrides(corpus), *overrides)
    folder.mkdir(exist_ok=True)
    task, data = assemble(cfg, build(cfg.data))
    data.setup()
    fitter = trainer(cfg, 0, [], [StepLosses(folder)], max_steps=max_steps, limit_val_batches=0)
    fitter.fit(task, data)
    return task, fitter


def by_hand(corpus: Path, *overrides: str) -> tuple[CTCTask, list[float], list[float]]:
    """The same training in a loop of its own: the task, the loss of each batch, the norm of each update's gradient."""
    cfg = compose(*SMALL, *tiny_overrides(corpus), *overrides)
    task, data = assemble(cfg, build(cfg.data))
    data.setup()
    task.train()
    optimizer = build(cfg.optimizer)(task.model.parameters())
    schedule = build(cfg.schedule)(optimizer, total_steps=4)
    losses, norms = [], []
    loader = data.train_dataloader()
    for epoch in range(2):
        loader.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]
        batches = list(loader)
        for group in (batches[:2], batches[2:]):
            optimizer.zero_grad()
            for batch in group:
                log_probs, lengths = task(batch)
                loss = task.loss(log_probs, lengths, batch)
                (loss / len(group)).backward()
                losses.append(float(loss.detach()))
            norms.append(float(nn.utils.clip_grad_norm_(task.model.parameters(), 0.5)))
            optimizer.step()
            schedule.step()
    return task, losses, norms


def test_an_update_is_over_the_mean_gradient_of_its_batches(tiny_corpus: Path, tmp_path: Path) -> None:
    """Also the last one of an epoch, of fewer batches; the schedule and the clipping count updates."""
    task, fitter = fitted(tiny_corpus, tmp_path, "batch.accumulate=2")
    expected, losses, norms = by_hand(tiny_corpus)
    assert fitter.global_step == 4
    for parameter, other in zip(task.model.parameters(), expected.model.parameters(), strict=True):  # type: ignore[attr-defined]
        torch.testing.assert_close(parameter, other, rtol=1e-5, atol=1e-6)
    with (tmp_path / "losses.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in rows] == pytest.approx(losses, rel=1e-5)
    written = [float(row["gradient_norm"] or "nan") for row in rows]
    none = math.nan
    first, second, third, fourth = norms
    assert written == pytest.approx([none, first, second, none, third, fourth], rel=1e-4, nan_ok=True)


def test_every_update_counts_once_in_a_moving_average(tiny_corpus: Path, tmp_path: Path) -> None:
    """Of the weights after the two updates of an epoch, 0.25 of the first and 0.75 of the second."""
    short = ("batch.accumulate=2", "max_epochs=1", "schedule=constant")
    averaged, _ = fitted(tiny_corpus, tmp_path / "average", *short, "averaging=ema", "averaging.decay=0.25")
    last, _ = fitted(tiny_corpus, tmp_path / "last", *short)
    first, _ = fitted(tiny_corpus, tmp_path / "first", *short, max_steps=1)
    for mean, one, two in zip(*(task.model.parameters() for task in (averaged, first, last)), strict=True):  # type: ignore[attr-defined]
        torch.testing.assert_close(mean, 0.25 * one + 0.75 * two, rtol=1e-5, atol=1e-6)
