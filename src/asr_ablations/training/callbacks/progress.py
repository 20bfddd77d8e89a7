"""What a person sees during training: a bar for the epoch, and a line an epoch that stays."""

import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn  # fmt: skip
from rich.progress import Progress as Bars

from asr_ablations.tools.files import write_json
from asr_ablations.tools.machine import rank

SECONDS_BETWEEN_WORDS = 2.0


class Progress(pl.Callback):
    """A rich progress bar where the output is a terminal, and after each epoch its losses and error rates."""

    def __init__(self, bar: bool, folder: Path | None = None, quiet: bool = False) -> None:
        self.console = Console(soft_wrap=True, highlight=False, quiet=quiet or bool(rank()))
        self.folder = folder
        self.bar = bar and self.console.is_terminal
        self._bars: Bars | None = None
        self._started = 0.0
        self._last_shown = self._last_told = 0.0
        self._first_step = 0
        self._found: dict[str, float] = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._started = time.perf_counter()
        self._first_step = trainer.global_step
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
        if time.perf_counter() - self._last_told >= SECONDS_BETWEEN_WORDS:
            self._tell(trainer, pl_module)
        # four times a second at most: reading the loss waits for the device
        if self._bars is None or time.perf_counter() - self._last_shown < 0.25:
            return
        self._last_shown = time.perf_counter()
        told = f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs} loss {float(outputs['loss']):.3f}"
        self._bars.update(self._bars.task_ids[0], completed=trainer.global_step, description=told)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        found = self._found = {key: float(value) for key, value in trainer.callback_metrics.items()}
        parts = [f"epoch {trainer.current_epoch + 1:3d}/{trainer.max_epochs}", f"train loss {found['train/loss']:.3f}"]
        for name in pl_module.validation_sets:  # type: ignore[union-attr]
            values = {key: found.get(f"validation/{name}/{key}", float("nan")) for key in ("loss", "wer", "cer")}
            rates = f"WER {100 * values['wer']:5.1f} %  CER {100 * values['cer']:5.1f} %"
            parts.append(f"{name}: loss {values['loss']:.3f}  {rates}")
        parts.append(f"{time.perf_counter() - self._started:.0f} s")
        self.console.print("   ".join(parts))

    def _tell(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """progress.json, for whoever watches the sweep: rates are of the last epoch, so that nothing waits for them."""
        self._last_told = time.perf_counter()
        if self.folder is None or rank():
            return
        wer = self._found.get(f"validation/{pl_module.validation_sets[0]}/wer")  # type: ignore[index]
        steps = trainer.num_training_batches * (trainer.max_epochs or 1)
        pace = (self._last_told - self._started) / max(1, trainer.global_step - self._first_step)
        told = {
            "epoch": trainer.current_epoch,
            "epochs": trainer.max_epochs,
            "batch": trainer.global_step % max(1, int(trainer.num_training_batches)),
            "batches": trainer.num_training_batches,
            "loss": self._found.get("train/loss"),
            "wer": wer,
            "seconds_left": pace * (steps - trainer.global_step),
        }
        write_json(self.folder / "progress.json", told)

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
