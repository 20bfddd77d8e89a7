"""Show the progress of a training on the terminal: a bar, and one line for each epoch."""

import time
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytorch_lightning as pl
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn  # fmt: skip
from rich.progress import Progress as Bars

from asr_ablations.data.datamodule import SpeechData
from asr_ablations.runs.layout import PROGRESS
from asr_ablations.runs.reader import EVALUATING, TRAINING
from asr_ablations.tools.machine import rank
from asr_ablations.training.callbacks.step_losses import step_loss
from asr_ablations.training.gradient_accumulation import count_trained_batches
from asr_ablations.training.task import task_of
from asr_verdicts.files import write_json
from asr_verdicts.terminal import console

SECONDS_BETWEEN_FILES = 2.0
"""Seconds between two progress files, which a sweep's live table reads."""
SECONDS_BETWEEN_BARS = 0.25
"""Seconds between two updates of the bar, because reading the loss waits for the device."""


class ProgressBar(pl.Callback):
    """Shows a progress bar in a terminal, and a line for each epoch; keeps progress.json in `folder`, if any."""

    def __init__(self, bar: bool, folder: Path | None = None, quiet: bool = False) -> None:
        self.console = console(soft_wrap=True, quiet=quiet or bool(rank()))
        self.folder = folder
        self.bar = bar and self.console.is_terminal
        self._bars: Bars | None = None
        self._started = 0.0
        self._last_bar = self._last_file = 0.0
        self._first_batch = 0
        self._metrics: dict[str, float] = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._started = time.perf_counter()
        self._first_batch = count_trained_batches(trainer)
        count = sum(p.numel() for p in pl_module.parameters())
        data = cast(SpeechData, trainer.datamodule)  # type: ignore[attr-defined]
        hours = float(data.sets["train"].durations.sum()) / 3600
        self.console.print(
            f"{count / 1e6:.2f} million parameters, {hours:.2f} hours of training audio, "
            f"{trainer.num_training_batches} batches per epoch, {trainer.precision}, {pl_module.device.type}"
        )
        if self.bar:
            columns = [TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn()]
            self._bars = Bars(*columns, TextColumn("left"), TimeRemainingColumn(), console=self.console, transient=True)
            self._bars.start()
            self._bars.add_task("training", total=trainer.num_training_batches * (trainer.max_epochs or 1))

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        if time.perf_counter() - self._last_file >= SECONDS_BETWEEN_FILES:
            self._write(trainer, pl_module)
        if self._bars is None or time.perf_counter() - self._last_bar < SECONDS_BETWEEN_BARS:
            return
        self._last_bar = time.perf_counter()
        text = f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs} loss {float(step_loss(trainer, outputs)):.3f}"
        self._bars.update(self._bars.task_ids[0], completed=count_trained_batches(trainer), description=text)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        metrics = self._metrics = {key: float(value) for key, value in trainer.callback_metrics.items()}
        number = f"{trainer.current_epoch + 1:{len(str(trainer.max_epochs))}d}/{trainer.max_epochs}"
        head = f"epoch {number}  train {metrics['train/loss']:.3f}"
        rates = []
        for name in task_of(pl_module).validation_sets:
            values = {key: metrics.get(f"validation/{name}/{key}", float("nan")) for key in ("loss", "wer", "cer")}
            percents = f"WER {100 * values['wer']:4.1f} %  CER {100 * values['cer']:4.1f} %"
            rates.append(f"{name}: loss {values['loss']:.3f}  {percents}")
        first, *others = rates  # one line per set: two sets in a line would be wider than a terminal
        self.console.print(f"{head}  {first}  {time.perf_counter() - self._started:.0f} s")
        for line in others:
            self.console.print(f"{'':{len(head)}}  {line}")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._close()
        self._write(trainer, pl_module, EVALUATING)

    def on_exception(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def _write(self, trainer: pl.Trainer, pl_module: pl.LightningModule, phase: str = TRAINING) -> None:
        """Write progress.json for a sweep's live table, with the last epoch's rates: reading new ones would wait."""
        self._last_file = time.perf_counter()
        if self.folder is None or rank():
            return
        wer = self._metrics.get(f"validation/{task_of(pl_module).validation_sets[0]}/wer")
        batches, done = trainer.num_training_batches * (trainer.max_epochs or 1), count_trained_batches(trainer)
        pace = (self._last_file - self._started) / max(1, done - self._first_batch)
        progress = {
            "epoch": trainer.current_epoch,
            "epochs": trainer.max_epochs,
            "batch": done % max(1, int(trainer.num_training_batches)),
            "batches": trainer.num_training_batches,
            "loss": self._metrics.get("train/loss"),
            "wer": wer,
            "seconds_left": pace * (batches - done),
            "phase": phase,
        }
        with suppress(OSError):  # a display must not end a training
            write_json(self.folder / PROGRESS, progress)
