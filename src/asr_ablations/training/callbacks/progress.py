"""Show training progress in the terminal: a progress bar, and one line per epoch."""

import time
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytorch_lightning as pl
from rich import progress

from asr_ablations.data.datamodule import SpeechData
from asr_ablations.runs.layout import PROGRESS
from asr_ablations.runs.reader import EVALUATING, TRAINING
from asr_ablations.tools.machine import awake, rank
from asr_ablations.training.callbacks.tables import step_loss
from asr_ablations.training.task import count_trained_batches, task_of
from asr_verdicts.files import write_json
from asr_verdicts.terminal import console

SECONDS_BETWEEN_FILES = 2.0
"""Minimum seconds between updates of progress.json, which the live table of a sweep reads."""
SECONDS_BETWEEN_BARS = 0.25
"""Minimum seconds between updates of the progress bar. Each update reads the loss, which waits for the device."""


class ProgressBar(pl.Callback):
    """Shows a progress bar in a terminal, prints a line per epoch, and writes progress.json to `folder` if given."""

    def __init__(self, bar: bool, folder: Path | None = None, quiet: bool = False) -> None:
        self.console = console(soft_wrap=True, quiet=quiet or bool(rank()))
        self.folder = folder
        counts = progress.TextColumn("{task.description}"), progress.BarColumn(20), progress.MofNCompleteColumn()
        times = progress.TimeElapsedColumn(), progress.TextColumn("left"), progress.TimeRemainingColumn()
        visible = bar and self.console.is_terminal
        self._bar = progress.Progress(*counts, *times, console=self.console, transient=True, disable=not visible)
        self._task = self._bar.add_task("training", total=None)
        self._started = 0.0
        self._last_bar = self._last_file = 0.0
        self._first_batch = 0
        self._metrics: dict[str, float] = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._started = awake()
        self._first_batch = count_trained_batches(trainer)
        count = sum(p.numel() for p in pl_module.parameters())
        data = cast(SpeechData, trainer.datamodule)  # type: ignore[attr-defined]
        hours = float(data.sets["train"].durations.sum()) / 3600
        self.console.print(
            f"{count / 1e6:.2f} million parameters, {hours:.2f} hours of training audio, "
            f"{trainer.num_training_batches} batches per epoch, {trainer.precision}, {pl_module.device.type}"
        )
        self._bar.start()
        self._bar.reset(self._task, total=trainer.num_training_batches * (trainer.max_epochs or 1))

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, *_: object
    ) -> None:
        if time.perf_counter() - self._last_file >= SECONDS_BETWEEN_FILES:
            self._write(trainer, pl_module)
        if not self._bar.live.is_started or time.perf_counter() - self._last_bar < SECONDS_BETWEEN_BARS:
            return
        self._last_bar = time.perf_counter()
        text = f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs} loss {float(step_loss(trainer, outputs)):.3f}"
        self._bar.update(self._task, completed=count_trained_batches(trainer), description=text)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        metrics = self._metrics = {key: float(value) for key, value in trainer.callback_metrics.items()}
        number = f"{trainer.current_epoch + 1:{len(str(trainer.max_epochs))}d}/{trainer.max_epochs}"
        head = f"epoch {number}  train {metrics['train/loss']:.3f}"
        rates = []
        for name in task_of(pl_module).validation_sets:
            values = {key: metrics.get(f"validation/{name}/{key}", float("nan")) for key in ("loss", "wer", "cer")}
            percents = f"WER {100 * values['wer']:4.1f} %  CER {100 * values['cer']:4.1f} %"
            rates.append(f"{name}: loss {values['loss']:.3f}  {percents}")
        first, *others = rates  # each validation set gets its own line, because one line for all would be too wide
        self.console.print(f"{head}  {first}  {awake() - self._started:.0f} s")
        for line in others:
            self.console.print(f"{'':{len(head)}}  {line}")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._bar.stop()
        self._write(trainer, pl_module, EVALUATING)

    def on_exception(self, *_: object) -> None:
        self._bar.stop()

    def _write(self, trainer: pl.Trainer, pl_module: pl.LightningModule, phase: str = TRAINING) -> None:
        """Write progress.json with the last epoch's loss and WER. Reading newer values would wait for the device."""
        self._last_file = time.perf_counter()
        if self.folder is None or rank():
            return
        batches, done = trainer.num_training_batches * (trainer.max_epochs or 1), count_trained_batches(trainer)
        pace = (self._last_file - self._started) / max(1, done - self._first_batch)
        content = {
            "epoch": trainer.current_epoch,
            "epochs": trainer.max_epochs,
            "batch": done % max(1, int(trainer.num_training_batches)),
            "batches": trainer.num_training_batches,
            "loss": self._metrics.get("train/loss"),
            "wer": self._metrics.get(f"validation/{task_of(pl_module).validation_sets[0]}/wer"),
            "seconds_left": pace * (batches - done),
            "phase": phase,
        }
        with suppress(OSError):  # training must continue even if its progress cannot be shown
            write_json(self.folder / PROGRESS, content)
