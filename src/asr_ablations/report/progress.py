"""What a person sees during training: a bar for the epoch, and a line an epoch that stays."""

import time
from typing import Any

import pytorch_lightning as pl
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn  # fmt: skip
from rich.progress import Progress as Bars

from asr_ablations.run import rank


class Progress(pl.Callback):
    """A rich progress bar where the output is a terminal, and after each epoch its losses and error rates."""

    def __init__(self, bar: bool, quiet: bool = False) -> None:
        self.console = Console(soft_wrap=True, highlight=False, quiet=quiet or bool(rank()))
        self.bar = bar and self.console.is_terminal
        self._bars: Bars | None = None
        self._started = 0.0
        self._last_shown = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._started = time.perf_counter()
        count = sum(p.numel() for p in pl_module.parameters())
        hours = float(trainer.datamodule.sets["train"].durations.sum()) / 3600  # type: ignore[attr-defined]
        self.console.print(
            f"{count / 1e6:.2f} million parameters, {hours:.2f} hours of training audio, "
            f"{trainer.num_training_batches} batches an epoch, {trainer.precision}, {pl_module.device.type}"
        )
        if self.bar:
            columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
            self._bars = Bars(*columns, TextColumn("left"), TimeRemainingColumn(), console=self.console, transient=True)
            self._bars.start()
            self._bars.add_task("training", total=trainer.num_training_batches * (trainer.max_epochs or 1))

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # four times a second at most: reading the loss waits for the device
        if self._bars is None or time.perf_counter() - self._last_shown < 0.25:
            return
        self._last_shown = time.perf_counter()
        told = f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs} loss {float(outputs['loss']):.3f}"
        self._bars.update(self._bars.task_ids[0], completed=trainer.global_step, description=told)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        found = {key: float(value) for key, value in trainer.callback_metrics.items()}
        parts = [f"epoch {trainer.current_epoch + 1:3d}/{trainer.max_epochs}", f"train loss {found['train/loss']:.3f}"]
        for name in pl_module.validation_sets:  # type: ignore[union-attr]
            values = {key: found.get(f"validation/{name}/{key}", float("nan")) for key in ("loss", "wer", "cer")}
            rates = f"WER {100 * values['wer']:5.1f} %  CER {100 * values['cer']:5.1f} %"
            parts.append(f"{name}: loss {values['loss']:.3f}  {rates}")
        parts.append(f"{time.perf_counter() - self._started:.0f} s")
        self.console.print("   ".join(parts))

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
