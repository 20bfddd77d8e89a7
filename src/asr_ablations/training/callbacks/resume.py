"""Checkpoints from which a run continues as if it had never stopped."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict, cast

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.types import _PATH
from pytorch_lightning.loops.progress import _ProcessedTracker
from pytorch_lightning.plugins.io import TorchCheckpointIO

from asr_ablations.runs.layout import LAST
from asr_ablations.tools.errors import Stopped
from asr_ablations.tools.files import Json, whole_file
from asr_ablations.tools.machine import rank
from asr_ablations.training.contracts import Checkpoint
from asr_ablations.training.ranks import gathered
from asr_ablations.training.signals import StopRequest

STEPS_BETWEEN_AGREEMENTS = 25
"""Steps between two broadcasts of the first rank: several ranks must save and stop at the same step."""

Means = dict[str, tuple[torch.Tensor, torch.Tensor]]
"""Weighted sum and weight of every value that an epoch averages, by name."""


class RankState(TypedDict):
    """What a checkpoint holds for each rank. random: states of the generators `cpu` and, if any, `cuda`."""

    random: dict[str, torch.Tensor]
    means: Means


class LastCheckpoint(pl.Callback):
    """Writes `folder`/last.ckpt: before each epoch, after the last one, every `minutes` in between, and on a stop
    request.

    It is written at the start of a batch only, when Lightning has finished everything that belongs to the batches
    before: Lightning's own checkpoints are written within hooks, and a run that continues from one may log a step
    twice, or not at all. Beside Lightning's state it holds what `record` returns, the random state of every rank and
    the running means of the epoch. So all later numbers are those of a run that was never interrupted, bit for bit
    where the device is deterministic.

    Must be the first of the callbacks.
    """

    def __init__(self, folder: Path, minutes: float, stop: StopRequest, record: Callable[[], Json]) -> None:
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
        # before each batch it would broadcast what its handler has received, and wait for the device and all ranks
        trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = lambda: None  # type: ignore[method-assign]
        self.stop.holding = True

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.current_epoch and not self._resumed:
            self._save(trainer, 0)
            self._stop_on(self.stop.received if trainer.world_size == 1 else None)
        self._resumed = False

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        self._resumed = False
        if not batch_idx:
            return
        save, signal_number = self._agreed(trainer, batch_idx)
        if save or signal_number:
            self._save(trainer, batch_idx)
            self._stop_on(signal_number)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.metrics = {key: float(value) for key, value in trainer.callback_metrics.items()}
        self._save(trainer, 0)
        self.seconds += time.monotonic() - self._began
        self.stop.holding = False

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self.stop.holding = False

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        epoch = cast(_ProcessedTracker, trainer.fit_loop.epoch_progress.current).processed
        _set_position(checkpoint["loops"]["fit_loop"], epoch, self._done)
        checkpoint["position"] = {"epoch": epoch, "batches": self._done}
        state: RankState = {"random": _random_state(trainer), "means": _running_means(trainer) if self._done else {}}
        checkpoint["ranks"] = gathered(state)
        checkpoint["run"] = self.record()

    def state_dict(self) -> Json:
        return {"metrics": self.metrics, "seconds": self.seconds + time.monotonic() - self._began}

    def load_state_dict(self, state_dict: Json) -> None:
        self.metrics, self.seconds = state_dict["metrics"], state_dict["seconds"]
        self._resumed = True

    def _agreed(self, trainer: pl.Trainer, batch: int) -> tuple[bool, int | None]:
        """Whether to save now, and the signal to stop on: the same for all ranks, decided by the first."""
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

    def _stop_on(self, signal_number: int | None) -> None:
        if signal_number:
            raise Stopped(signal_number)


class RestoreState(pl.Callback):
    """Restores what Lightning does not: random state, and an epoch's running means. Must be the last of the callbacks.

    states: one for each rank; None for a run that starts anew.
    """

    def __init__(self, states: Sequence[RankState] | None) -> None:
        own = states[rank()] if states else None
        self._random: dict[str, torch.Tensor] | None = own["random"] if own else None
        self._means: Means = dict(own["means"]) if own else {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._random is not None:
            torch.set_rng_state(self._random["cpu"])
            if (cuda := self._random.get("cuda")) is not None and _on_cuda(trainer):
                torch.cuda.set_rng_state(cuda)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        if not self._means:
            return
        results = trainer.fit_loop.epoch_loop._results
        for key in [key for key in self._means if key in results]:
            total, weight = self._means.pop(key)
            result = results[key]
            # a sum of two numbers does not depend on their order: (a + b) + c is reproduced bit for bit
            result.value = total.to(result.value.device) + result.value
            result.cumulated_batch_size = weight.to(result.value.device) + result.cumulated_batch_size

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._means = {}


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes checkpoints under a temporary name until they are complete and on disk; reads tensors and plain data only,
    so that nothing in a checkpoint is executed.
    """

    def save_checkpoint(self, checkpoint: Checkpoint, path: _PATH, storage_options: object = None) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as temporary, temporary.open("wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())

    def load_checkpoint(
        self,
        path: _PATH,
        map_location: Callable[..., object] | None = lambda storage, _: storage,
        weights_only: bool | None = None,
    ) -> Checkpoint:
        """Onto the CPU, from where each rank takes its part to its own device: where the file was saved from does not
        matter, and no rank opens the first GPU.
        """
        return super().load_checkpoint(path, map_location, weights_only=True)


def _set_position(fit_loop: Json, epoch: int, done: int) -> None:
    """Set Lightning's counters to `done` complete batches of epoch `epoch`; done = 0 is between two epochs."""
    begun = epoch + bool(done)
    for kind in ("total", "current"):
        fit_loop["epoch_progress"][kind].update(ready=begun, started=begun, processed=epoch, completed=epoch)
    batches = fit_loop["epoch_loop.batch_progress"]
    batches["current"].update(ready=done, started=done, processed=done, completed=done)
    total = batches["total"]["completed"]
    batches["total"].update(ready=total, started=total, processed=total)
    batches["is_last_batch"] = False


def _random_state(trainer: pl.Trainer) -> dict[str, torch.Tensor]:
    state = {"cpu": torch.get_rng_state()}
    return {**state, "cuda": torch.cuda.get_rng_state()} if _on_cuda(trainer) else state


def _on_cuda(trainer: pl.Trainer) -> bool:
    """Whether the run uses a GPU: to ask CUDA itself would open it."""
    return trainer.strategy.root_device.type == "cuda"


def _running_means(trainer: pl.Trainer) -> Means:
    results = trainer.fit_loop.epoch_loop._results
    return {
        key: (result.value.cpu(), result.cumulated_batch_size.cpu())
        for key, result in results.items()
        if result.is_tensor and result.meta.is_mean_reduction and result.meta.on_epoch
    }
