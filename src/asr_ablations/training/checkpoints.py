"""Write checkpoints, and resume a run from its last one as if it had never stopped."""

import logging
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.types import _PATH
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loops.progress import _ProcessedTracker
from pytorch_lightning.plugins.io import TorchCheckpointIO

from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import BEST, LAST, last_checkpoint
from asr_ablations.runs.reader import read_checkpoint, read_environment
from asr_ablations.runs.status import reason
from asr_ablations.tools.files import free_name
from asr_ablations.tools.machine import awake, rank
from asr_ablations.training.contracts import Checkpoint
from asr_ablations.training.ddp import gather_from_ranks
from asr_ablations.training.signals import StopRequest
from asr_ablations.training.task import Sums, task_of
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json, whole_file

log = logging.getLogger(__name__)

FOR_TRAINING_ONLY = ("optimizer_states", "trained_weights", "averaging", "workers")
"""Checkpoint entries that only a resumed run needs. best.ckpt omits them, because runs resume from last.ckpt."""


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes each checkpoint to a temporary file, which is renamed when complete. Loads only tensors and plain data."""

    content: Checkpoint | None = None
    """The checkpoint to resume from. It is read only once, because another process may replace the file."""

    def save_checkpoint(self, checkpoint: Checkpoint, path: _PATH, storage_options: object = None) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.name == BEST:  # best.ckpt then has a third of the size and is written in a third of the time
            checkpoint = {key: value for key, value in checkpoint.items() if key not in FOR_TRAINING_ONLY}
        with whole_file(target) as temporary, temporary.open("wb") as file:
            torch.save(checkpoint, file)

    def load_checkpoint(self, path: _PATH, *_: object, **__: object) -> Checkpoint:
        """Return `content` if set, else load the file onto the CPU. Otherwise, every rank would open the first GPU."""
        content, self.content = self.content, None
        return content or super().load_checkpoint(path, weights_only=True)


def best_checkpoint(folder: Path, validation_set: str, figure: str) -> ModelCheckpoint:
    """Return a callback that saves best.ckpt at each new minimum of `figure`, one of metrics_files.FIGURES."""
    return ModelCheckpoint(
        dirpath=folder,
        filename=BEST.removesuffix(".ckpt"),
        monitor=f"validation/{validation_set}/{figure}",
        enable_version_counter=False,
    )


SECONDS_BETWEEN_AGREEMENTS = 2.0
"""Seconds between broadcasts in which the first rank orders a save or a stop. torchrun kills slow ranks after 30 s."""
LONG_VALIDATION = 10.0
"""If a validation takes more than this many seconds, a checkpoint is written just before the next validation."""


def read_last_checkpoint(record: Run) -> Checkpoint | None:
    """Return a run's last checkpoint, or None if there is none. Raise UsageError if it cannot be read now.

    If the checkpoint is damaged or belongs to another run, move all of the run's checkpoints aside and return None.
    """
    path = last_checkpoint(record.folder)
    if not path.exists():
        return None
    try:
        checkpoint = read_checkpoint(path)
        if missing := {"position", "ranks", "run"} - checkpoint.keys():
            raise UsageError(f"last.ckpt: cannot continue from this checkpoint: it lacks {', '.join(sorted(missing))}")
        if (owner := checkpoint["run"]["id"]) != record.id:
            raise UsageError(f"last.ckpt: it belongs to the run {owner}, but this run is {record.id}")
    except UsageError as error:
        if not rank():
            old_folder = path.parent.rename(free_name(path.parent))  # the new run must not overwrite best.ckpt
            log.warning("%s; the run starts from scratch, and its old checkpoints are in %s", error, old_folder)
        return None
    except (OSError, MemoryError) as error:
        raise UsageError(f"{path}: cannot be read now: {reason(error)}; run the same command later") from error
    if not rank():
        epoch, batches = checkpoint["position"]["epoch"], checkpoint["position"]["batches"]
        print(f"continues from epoch {epoch + 1}, batch {batches}: {record.folder}", flush=True)
    return checkpoint


def restore_threads(record: Run) -> None:
    """Use the number of threads with which the run began, because any other number changes the last bits of sums."""
    threads = read_environment(record.folder).hardware.threads
    if threads is not None and threads != torch.get_num_threads():
        print(f"uses {threads} threads, as at the start of the run", flush=True)
        torch.set_num_threads(threads)


class LastCheckpoint(pl.Callback):
    """Writes `folder`/last.ckpt between epochs, after the last epoch, every `minutes` minutes, and on a stop request.

    The checkpoint is written before a batch, when Lightning has finished all earlier batches. (Lightning itself writes
    checkpoints within hooks, and a run resumed from one of them may log a step twice or not at all.) It also contains
    the return value of `record`, the random state of every rank and the running means of the epoch. A resumed run
    therefore gives the same numbers as an uninterrupted one, bit for bit if the device is deterministic.

    A checkpoint is also written just before a long validation, so a stop request can end the validation at once. This
    callback must be the first one.
    """

    def __init__(self, folder: Path, minutes: float, stop: StopRequest, record: Callable[[], Json]) -> None:
        self.path, self.minutes, self.stop, self.record = folder / LAST, minutes, stop, record
        self.metrics: dict[str, float] = {}
        self.seconds = 0.0
        self._saved, self._began = time.monotonic(), awake()
        self._done = 0  # number of this epoch's batches trained before the checkpoint
        self._resumed = False
        self._agreement = 0  # index of the batch before which the first rank broadcasts next
        self._counted = (0, 0.0)  # batch index and time of the latest broadcast
        self._validated = 0.0  # duration (s) of the latest validation; with several ranks, initially infinite
        self._left_at_once = False  # whether a checkpoint was written just before the current validation

    def setup(self, trainer: pl.Trainer, *_: object, **__: object) -> None:
        self._saved, self._began = time.monotonic(), awake()
        self._validated = math.inf if trainer.world_size > 1 else 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.stop.listen()  # install our handlers again, because Lightning has replaced them
        # Lightning would make all ranks wait before each batch, only to share whether the first one received SIGTERM
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
        # do not save while gradients accumulate, because checkpoints do not contain gradients
        if not batch_idx or batch_idx % trainer.accumulate_grad_batches:
            return
        save, signal_number = self._agreed(trainer, batch_idx)
        if save or signal_number:
            self._save(trainer, batch_idx)
            self._left_at_once = trainer.is_last_batch
            self._stop_on(signal_number)

    def on_validation_start(self, *_: object) -> None:
        self._validated = -time.monotonic()

    def on_validation_batch_start(self, *_: object) -> None:
        if self._left_at_once:  # the checkpoint is on disk, so each rank may stop by itself
            self._stop_on(self.stop.received)

    def on_validation_end(self, *_: object) -> None:
        self._validated += time.monotonic()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.metrics = {key: float(value) for key, value in trainer.callback_metrics.items()}
        self._save(trainer, 0)
        self.seconds += awake() - self._began
        self.stop.holding = False

    def on_exception(self, *_: object) -> None:
        self.stop.holding = False

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: Checkpoint) -> None:
        epoch = cast(_ProcessedTracker, trainer.fit_loop.epoch_progress.current).processed
        _set_position(checkpoint["loops"]["fit_loop"], epoch, self._done)
        checkpoint["position"] = {"epoch": epoch, "batches": self._done}
        random = {"cpu": torch.get_rng_state()}
        if trainer.strategy.root_device.type == "cuda":  # this call would open the GPU even if the run uses the CPU
            random["cuda"] = torch.cuda.get_rng_state()
        means, sums = (_running_means(trainer), task_of(pl_module).sums) if self._done else ({}, {})
        sums = {key: (total.cpu(), steps.cpu()) for key, (total, steps) in sums.items()}
        checkpoint["ranks"] = gather_from_ranks({"random": random, "means": means, "sums": sums})
        checkpoint["run"] = self.record()

    def state_dict(self) -> Json:
        return {"metrics": self.metrics, "seconds": self.seconds + awake() - self._began}

    def load_state_dict(self, state_dict: Json) -> None:
        self.metrics, self.seconds = state_dict["metrics"], state_dict["seconds"]
        self._resumed = True

    def _agreed(self, trainer: pl.Trainer, batch: int) -> tuple[bool, int | None]:
        """Return whether to save now, and the number of the received stop signal or None. The first rank decides."""
        now = time.monotonic()
        due = now - self._saved >= 60 * self.minutes or (trainer.is_last_batch and self._validated > LONG_VALIDATION)
        if trainer.world_size == 1:
            return due, self.stop.received
        if batch < self._agreement and not trainer.is_last_batch:
            return False, None
        before, then = self._counted
        steps_per_second = max(1, batch - before) / max(now - then, 1e-9)
        steps = max(1, min(1000, int(SECONDS_BETWEEN_AGREEMENTS * steps_per_second)))
        due, received, steps = trainer.strategy.broadcast((due, self.stop.received, steps))
        self._agreement, self._counted = batch + steps, (batch, time.monotonic())
        return due, received

    def _save(self, trainer: pl.Trainer, done: int) -> None:
        self._done = done
        for logger in trainer.loggers:
            logger.save()  # the checkpoint counts these rows, so they must survive a crash
        trainer.save_checkpoint(self.path)
        self._saved = time.monotonic()

    def _stop_on(self, signal_number: int | None) -> None:
        if signal_number:
            self.stop.raise_stopped(signal_number)


class RestoreState(pl.Callback):
    """Passes a checkpoint to Lightning, and restores the random state and the epoch's running means.

    checkpoint: the checkpoint to resume from, or None to start from scratch. This callback must be the last one.
    means: restored weighted sum and weight of each mean, by name. Each is removed when it is added to the new mean.
    """

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self._checkpoint = checkpoint
        state = checkpoint["ranks"][rank()] if checkpoint else {}
        self._random: dict[str, torch.Tensor] | None = state.get("random")
        self.means: Sums = dict(state.get("means", {}))
        self._sums: Sums = state.get("sums", {})

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        checkpoint_io = trainer.strategy.checkpoint_io
        assert isinstance(checkpoint_io, AtomicCheckpointIO)
        checkpoint_io.content, self._checkpoint = self._checkpoint, None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._random is not None:
            device = trainer.strategy.root_device
            torch.set_rng_state(self._random["cpu"])
            if (cuda := self._random.get("cuda")) is not None and device.type == "cuda":
                torch.cuda.set_rng_state(cuda)
            restored = {key: (total.to(device), steps.to(device)) for key, (total, steps) in self._sums.items()}
            task_of(pl_module).sums = restored

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        if not self.means:
            return
        results = trainer.fit_loop.epoch_loop._results
        for key in [key for key in self.means if key in results]:
            total, weight = self.means.pop(key)
            result = results[key]
            # a + b and b + a have the same bits, so the restored sum may be added after the first new batch
            result.value = total.to(result.value.device) + result.value
            result.cumulated_batch_size = weight.to(result.value.device) + result.cumulated_batch_size

    def on_train_epoch_end(self, *_: object) -> None:
        self.means = {}


def _set_position(fit_loop: Json, epoch: int, done: int) -> None:
    """Set Lightning's counters to `done` finished batches of epoch `epoch`; 0 means that the epoch has not begun."""
    begun = epoch + bool(done)
    for kind in ("total", "current"):
        fit_loop["epoch_progress"][kind].update(ready=begun, started=begun, processed=epoch, completed=epoch)
    batches = fit_loop["epoch_loop.batch_progress"]
    batches["current"].update(ready=done, started=done, processed=done, completed=done)
    total = batches["total"]["completed"]
    batches["total"].update(ready=total, started=total, processed=total)
    batches["is_last_batch"] = False


def _running_means(trainer: pl.Trainer) -> Sums:
    """Return the weighted sum and the weight of each value that Lightning averages over the epoch, by name."""
    results = trainer.fit_loop.epoch_loop._results
    # if a resumed run is stopped before its first batch, RestoreState has not added the restored means yet
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]  # set by a Lightning connector
    waiting = [callback.means for callback in callbacks if isinstance(callback, RestoreState)]
    running = {
        key: (result.value.cpu(), result.cumulated_batch_size.cpu())
        for key, result in results.items()
        if result.is_tensor and result.meta.is_mean_reduction and result.meta.on_epoch
    }
    return {key: value for means in (*waiting, running) for key, value in means.items()}
