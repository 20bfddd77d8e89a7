"""Checkpoints from which a run continues as if it had never stopped."""

import logging
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict, cast

import pytorch_lightning as pl
import torch
from pytorch_lightning.loops.progress import _ProcessedTracker

from asr_ablations.runs.checkpoint import read_checkpoint
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import LAST, last_checkpoint
from asr_ablations.runs.reader import read_environment
from asr_ablations.runs.status import reason
from asr_ablations.tools.errors import Stopped
from asr_ablations.tools.files import free_name
from asr_ablations.tools.machine import rank
from asr_ablations.training.checkpoints import AtomicCheckpointIO
from asr_ablations.training.contracts import Checkpoint
from asr_ablations.training.ddp import gathered
from asr_ablations.training.signals import StopRequest
from asr_ablations.training.task import Sums, task_of
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json

log = logging.getLogger(__name__)

SECONDS_BETWEEN_AGREEMENTS = 2.0
"""How often the first rank broadcasts whether to save or stop, at the same step for all; torchrun kills after 30 s."""
LONG_VALIDATION = 10.0
"""Seconds of a validation that are not waited for when the run is to stop: a checkpoint is written just before it."""

Means = dict[str, tuple[torch.Tensor, torch.Tensor]]
"""Weighted sum and weight of every value that an epoch averages, by name."""


def read_last_checkpoint(record: Run) -> Checkpoint | None:
    """The last checkpoint of an earlier attempt. If it is damaged or another run's, all checkpoints are put aside, and
    the run starts anew. Raise UsageError if it cannot be read now.
    """
    path = last_checkpoint(record.folder)
    if not path.exists():
        return None
    try:
        checkpoint = read_checkpoint(path)
        _check_resumable(checkpoint, record.id)
    except UsageError as error:
        if not rank():
            kept = path.parent.rename(free_name(path.parent))  # with the best one: nothing is overwritten
            log.warning("%s; the run starts anew, and its checkpoints are kept in %s", error, kept)
        return None
    except (OSError, MemoryError) as error:
        raise UsageError(f"{path}: it cannot be read now: {reason(error)}; the same command continues later") from error
    if not rank():
        position = checkpoint["position"]
        epoch, batch = position["epoch"] + 1, position["batches"]
        print(f"continues from epoch {epoch}, batch {batch}: {record.folder}", flush=True)
    return checkpoint


def restore_threads(record: Run) -> None:
    """Use as many threads as at the run's start: another number sums in another order, and changes the last bits."""
    threads = read_environment(record.folder).hardware.threads
    if threads is not None and threads != torch.get_num_threads():
        print(f"with {threads} threads, as the run started", flush=True)
        torch.set_num_threads(threads)


def _check_resumable(checkpoint: Checkpoint, run: str) -> None:
    """Raises UsageError for a checkpoint from which a run with this id cannot continue."""
    try:
        owner = checkpoint["run"]["id"]
        numbers = [checkpoint["position"]["epoch"], checkpoint["position"]["batches"], checkpoint["run"]["rows"]]
        ranks_ = len(checkpoint["ranks"])
    except (KeyError, TypeError) as error:
        raise UsageError(f"last.ckpt: no checkpoint to continue from: it lacks {error}") from error
    if not ranks_ or not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise UsageError("last.ckpt: no checkpoint to continue from: its position is no number")
    if owner != run:
        raise UsageError(f"last.ckpt: it belongs to the run {owner}, and this one is {run}")


class RankState(TypedDict):
    """The state of a rank in a checkpoint: of generators, and of the means that Lightning and the task take."""

    random: dict[str, torch.Tensor]
    means: Means
    sums: Sums


class LastCheckpoint(pl.Callback):
    """Writes `folder`/last.ckpt: before each epoch, after the last one, every `minutes`, and on a stop request.

    It is written at the start of a batch, when Lightning has finished everything of the batches before: Lightning
    writes its own within hooks, and a run that continues from one may log a step twice, or not at all. It also holds
    what `record` returns, the random state of every rank and the epoch's running means, so that all later numbers are
    those of a run that was never interrupted, bit for bit where the device is deterministic.

    A long validation is left at once on a stop request; its epoch is continued from the last of its batches. Must be
    the first of the callbacks.
    """

    def __init__(self, folder: Path, minutes: float, stop: StopRequest, record: Callable[[], Json]) -> None:
        self.path, self.minutes, self.stop, self.record = folder / LAST, minutes, stop, record
        self.metrics: dict[str, float] = {}
        self.seconds = 0.0
        self._saved = self._began = time.monotonic()
        self._done = 0  # batches of this epoch that a checkpoint written now would hold
        self._resumed = False
        self._agreement = 0  # the batch at whose start the first rank broadcasts next
        self._counted = (0, 0.0)  # batch and time of the latest broadcast
        self._validated = 0.0  # seconds of the latest validation; of several ranks, the first may be long
        self._left_at_once = False  # whether a checkpoint from just before this validation exists

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self._began = self._saved = time.monotonic()
        self._validated = math.inf if trainer.world_size > 1 else 0.0

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
        self._agreement, self._counted = 1, (0, time.monotonic())

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        self._resumed = self._left_at_once = False
        # not while gradients accumulate: they are in no checkpoint
        if not batch_idx or batch_idx % trainer.accumulate_grad_batches:
            return
        save, signal_number = self._agreed(trainer, batch_idx)
        if save or signal_number:
            self._save(trainer, batch_idx)
            self._left_at_once = trainer.is_last_batch
            self._stop_on(signal_number)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._validated = -time.monotonic()

    def on_validation_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if self._left_at_once:  # no rank need wait for another: what each needs is on disk
            self._stop_on(self.stop.received)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._validated += time.monotonic()

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
        state: RankState = {"random": _random_state(trainer), "means": {}, "sums": {}}
        if self._done:
            state["means"] = _running_means(trainer)
            state["sums"] = {key: (total.cpu(), steps.cpu()) for key, (total, steps) in task_of(pl_module).sums.items()}
        checkpoint["ranks"] = gathered(state)
        checkpoint["run"] = self.record()

    def state_dict(self) -> Json:
        return {"metrics": self.metrics, "seconds": self.seconds + time.monotonic() - self._began}

    def load_state_dict(self, state_dict: Json) -> None:
        self.metrics, self.seconds = state_dict["metrics"], state_dict["seconds"]
        self._resumed = True

    def _agreed(self, trainer: pl.Trainer, batch: int) -> tuple[bool, int | None]:
        """Return whether to save now, and the signal to stop on: the same for all ranks, decided by the first."""
        now = time.monotonic()
        due = now - self._saved >= 60 * self.minutes
        if trainer.is_last_batch:
            due = due or self._validated > LONG_VALIDATION
        if trainer.world_size == 1:
            return due, self.stop.received
        if batch < self._agreement and not trainer.is_last_batch:
            return False, None
        before, then = self._counted
        steps = steps_until((now - then) / max(1, batch - before))
        due, received, steps = trainer.strategy.broadcast((due, self.stop.received, steps))
        self._agreement, self._counted = batch + steps, (batch, time.monotonic())
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


def steps_until(seconds_per_step: float) -> int:
    """Steps to the next agreement of several ranks: at least one, at most a thousand."""
    return max(1, min(1000, int(SECONDS_BETWEEN_AGREEMENTS / max(seconds_per_step, 1e-9))))


class RestoreState(pl.Callback):
    """Hands Lightning the checkpoint, if any, and restores random state and an epoch's running means. Must be the last.

    means: those that no batch has been added to yet.
    """

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self._checkpoint = checkpoint
        own: RankState | None = checkpoint["ranks"][rank()] if checkpoint else None
        self._random: dict[str, torch.Tensor] | None = own["random"] if own else None
        self.means: Means = dict(own["means"]) if own else {}
        self._sums: Sums = own["sums"] if own else {}

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        checkpoint_io = trainer.strategy.checkpoint_io
        assert isinstance(checkpoint_io, AtomicCheckpointIO)
        checkpoint_io.content, self._checkpoint = self._checkpoint, None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._random is not None:
            torch.set_rng_state(self._random["cpu"])
            if (cuda := self._random.get("cuda")) is not None and _on_cuda(trainer):
                torch.cuda.set_rng_state(cuda)
            device = trainer.strategy.root_device
            restored = {key: (total.to(device), steps.to(device)) for key, (total, steps) in self._sums.items()}
            task_of(pl_module).sums = restored

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        if not self.means:
            return
        results = trainer.fit_loop.epoch_loop._results
        for key in [key for key in self.means if key in results]:
            total, weight = self.means.pop(key)
            result = results[key]
            # a sum of two numbers does not depend on their order: (a + b) + c is reproduced bit for bit
            result.value = total.to(result.value.device) + result.value
            result.cumulated_batch_size = weight.to(result.value.device) + result.cumulated_batch_size

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.means = {}


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
    """Return whether the run uses a GPU: to ask CUDA itself would open it."""
    return trainer.strategy.root_device.type == "cuda"


def _running_means(trainer: pl.Trainer) -> Means:
    results = trainer.fit_loop.epoch_loop._results
    # of a run that is stopped again before its first batch, they are still to be restored
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]  # set by a connector
    waiting = [callback.means for callback in callbacks if isinstance(callback, RestoreState)]
    running = {
        key: (result.value.cpu(), result.cumulated_batch_size.cpu())
        for key, result in results.items()
        if result.is_tensor and result.meta.is_mean_reduction and result.meta.on_epoch
    }
    return {key: value for means in (*waiting, running) for key, value in means.items()}
