"""Checkpoints that a run goes on from as if it had never stopped."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.types import _PATH
from pytorch_lightning.plugins.io import TorchCheckpointIO

from asr_ablations.tools.errors import Stopped
from asr_ablations.training.signals import StopRequest

LAST = "last.ckpt"
STEPS_BETWEEN_AGREEMENTS = 25
"""Several ranks must save and stop at the same step: this often the first one tells the others, by a collective."""


class LastCheckpoint(pl.Callback):
    """Keeps `folder`/last.ckpt: before each epoch, after the last, every `minutes` in between, and when asked to stop.

    It is written at the start of a batch only, when Lightning has finished all that belongs to the batches before: its
    own checkpoints are from within hooks, and a run that goes on from one may log a step twice, or not at all. Beside
    Lightning's state it holds what `record` returns, the random state of every rank and the running means of the epoch,
    so that all later numbers are those of a run that was never interrupted, bit for bit where the device is
    deterministic.

    Must stand first among the callbacks.
    """

    def __init__(self, folder: Path, minutes: float, stop: StopRequest, record: Callable[[], dict[str, Any]]) -> None:
        self.path, self.minutes, self.stop, self.record = folder / LAST, minutes, stop, record
        self.metrics: dict[str, float] = {}
        self.seconds = 0.0
        self._saved = self._began = time.monotonic()
        self._done = 0  # batches of this epoch that a checkpoint written now would hold
        self._resumed = False

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self._began = self._saved = time.monotonic()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.stop.listen()  # again: Lightning has put its own handlers over ours
        self.stop.holding = True

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.current_epoch and not self._resumed:
            self._save(trainer, 0)
            self._stop_if_asked(trainer, self.stop.received if trainer.world_size == 1 else None)
        self._resumed = False

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._resumed = False
        if not batch_idx:
            return
        save, signal_number = self._agreed(trainer, batch_idx)
        if save or signal_number:
            self._save(trainer, batch_idx)
            self._stop_if_asked(trainer, signal_number)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.metrics = {key: float(value) for key, value in trainer.callback_metrics.items()}
        self._save(trainer, 0)
        self.seconds += time.monotonic() - self._began
        self.stop.holding = False

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self.stop.holding = False

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        epoch: int = trainer.fit_loop.epoch_progress.current.processed  # type: ignore[attr-defined]
        _set_position(checkpoint["loops"]["fit_loop"], epoch, self._done)
        checkpoint["position"] = {"epoch": epoch, "batches": self._done}
        checkpoint["ranks"] = _of_all_ranks(
            {"random": _random_state(), "means": _running_means(trainer) if self._done else {}}
        )
        checkpoint["run"] = self.record()

    def state_dict(self) -> dict[str, Any]:
        return {"metrics": self.metrics, "seconds": self.seconds + time.monotonic() - self._began}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.metrics, self.seconds = state_dict["metrics"], state_dict["seconds"]
        self._resumed = True

    def _agreed(self, trainer: pl.Trainer, batch: int) -> tuple[bool, int | None]:
        """Whether to save now, and the signal to stop for: the first rank's answer."""
        due = time.monotonic() - self._saved >= 60 * self.minutes
        if trainer.world_size == 1:
            return due, self.stop.received
        if batch % STEPS_BETWEEN_AGREEMENTS:
            return False, None
        due, received = trainer.strategy.broadcast((due, self.stop.received))
        return due, received

    def _save(self, trainer: pl.Trainer, done: int) -> None:
        self._done = done
        for logger in trainer.loggers:
            logger.save()  # the rows that the checkpoint counts must not be lost if the run is
        trainer.save_checkpoint(self.path)
        self._saved = time.monotonic()

    def _stop_if_asked(self, trainer: pl.Trainer, signal_number: int | None) -> None:
        if signal_number:
            raise Stopped(signal_number)


class GoOn(pl.Callback):
    """Puts back what Lightning does not: random state, and an epoch's running means. Must stand last."""

    def __init__(self, states: list[dict[str, Any]] | None) -> None:
        mine = states[int(os.environ.get("RANK", 0))] if states else {}
        self._random, self._means = mine.get("random"), dict(mine.get("means", {}))

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._random is not None:
            torch.set_rng_state(self._random["cpu"])
            if (cuda := self._random.get("cuda")) is not None and torch.cuda.is_available():
                torch.cuda.set_rng_state(cuda)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not self._means:
            return
        results = trainer.fit_loop.epoch_loop._results
        for key in [key for key in self._means if key in results]:
            total, weight = self._means.pop(key)
            found = results[key]
            # a sum of two has one value whatever their order: (a + b) + c is had bit for bit
            found.value = total.to(found.value.device) + found.value
            found.cumulated_batch_size = weight.to(found.value.device) + found.cumulated_batch_size

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._means = {}


class WholeFiles(TorchCheckpointIO):
    """Checkpoints under a temporary name until they are whole and on disk, and read as tensors and plain data only."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: _PATH, storage_options: Any | None = None) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with temporary.open("wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    def load_checkpoint(
        self, path: _PATH, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        return super().load_checkpoint(path, map_location, weights_only=True)


def _set_position(fit_loop: dict[str, Any], epoch: int, done: int) -> None:
    """Lightning's counters, as after `done` whole batches of epoch `epoch` (0: as between two epochs)."""
    begun = epoch + bool(done)
    for kind in ("total", "current"):
        fit_loop["epoch_progress"][kind].update(ready=begun, started=begun, processed=epoch, completed=epoch)
    batches = fit_loop["epoch_loop.batch_progress"]
    batches["current"].update(ready=done, started=done, processed=done, completed=done)
    total = batches["total"]["completed"]
    batches["total"].update(ready=total, started=total, processed=total)
    batches["is_last_batch"] = False


def _random_state() -> dict[str, Any]:
    state = {"cpu": torch.get_rng_state()}
    return {**state, "cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else state


def _running_means(trainer: pl.Trainer) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Weighted sum and weight of every value that the epoch averages."""
    results = trainer.fit_loop.epoch_loop._results
    return {
        key: (found.value.cpu(), found.cumulated_batch_size.cpu())
        for key, found in results.items()
        if found.is_tensor and found.meta.is_mean_reduction and found.meta.on_epoch
    }


def _of_all_ranks(state: dict[str, Any]) -> list[dict[str, Any]]:
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return [state]
    gathered: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(gathered, state)
    return gathered
