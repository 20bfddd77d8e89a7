"""Measure a run's training speed, and its use of the machine over time (Baunsgaard2020 §5.2, figures 8 and 9)."""

import csv
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytorch_lightning as pl
import torch

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.batch import Batch
from asr_ablations.runs.layout import UTILISATION
from asr_ablations.runs.metrics_files import COLUMNS
from asr_ablations.tools.machine import awake, device_clock
from asr_ablations.training.checkpoints import AtomicCheckpointIO
from asr_ablations.training.contracts import Decoder
from asr_ablations.training.parameter_groups import RATE
from asr_ablations.training.task import task_of
from asr_verdicts.files import Json


class Throughput(pl.Callback):
    """Logs train/epoch_seconds, train/audio_hours_per_second and train/learning_rate.

    The time of an epoch ends with its last training batch and therefore excludes validation. Padding does not count.
    """

    def __init__(self) -> None:
        self.audio_hours = self.train_seconds = 0.0
        self._samples = 0
        self._started = 0.0
        self.first_step = 0.0  # time.time() at the end of this process's first step

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._samples = 0
        self._started = awake()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: Batch, batch_idx: int
    ) -> None:
        self.first_step = self.first_step or time.time()
        self._samples += int(batch.lengths.sum())
        if trainer.is_last_batch:
            seconds = device_clock(pl_module.device) - awake.paused - self._started
            hours = self._samples * trainer.world_size / SAMPLE_RATE / 3600
            self.audio_hours += hours
            self.train_seconds += seconds
            pl_module.log("train/audio_hours_per_second", hours / seconds, on_step=False, on_epoch=True, batch_size=1)
            pl_module.log("train/epoch_seconds", seconds, on_step=False, on_epoch=True, batch_size=1)
            group = trainer.optimizers[0].param_groups[0]
            rate = group["lr"] / group.get(RATE, 1.0)
            pl_module.log("train/learning_rate", rate, on_step=False, on_epoch=True, batch_size=1)

    def state_dict(self) -> dict[str, float]:
        return {"audio_hours": self.audio_hours, "train_seconds": self.train_seconds, "samples": self._samples,
                "seconds": awake() - self._started}  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        self.audio_hours, self.train_seconds = state_dict["audio_hours"], state_dict["train_seconds"]
        # Lightning does not call on_train_epoch_start if a run resumes in the middle of an epoch
        self._samples, self._started = int(state_dict["samples"]), awake() - state_dict["seconds"]

    @property
    def rate(self) -> float:
        """Return the mean training speed over all epochs, in hours of audio per second."""
        return self.audio_hours / self.train_seconds if self.train_seconds else 0.0


class Utilisation(pl.Callback):
    """Appends a sample to `folder`/utilisation.csv every `interval` seconds, from the start of training until `close`.

    During training, a sample names the part of the step that the host has reached: data (between batches), forward,
    backward or update. The device may lag behind. A resumed run appends to the table.

    phases: seconds spent in setup, train, validate, decode, checkpoint and evaluate, from the creation of this object
      until `close`. The times of validate and evaluate exclude decode.
    processor_seconds: processor time of this process, its threads and its ended children, such as DataLoader workers

    Logs for each epoch:
    - train/waiting_percent: percentage of the training time that passes between batches, including time spent in
      Lightning and the loggers. A GPU may wait for less time, because it may still be computing.
    - time/seconds, logged with the validation: wall time since training began.
    - time/audio_hours, logged with the validation: hours of audio trained on so far, without padding.
    """

    def __init__(self, folder: Path, interval: float) -> None:
        self.phases: dict[str, float] = {}
        self._processor_began = sum(os.times()[:4])
        self.path, self.interval = folder / UTILISATION, interval
        self.audio_hours = 0.0
        self._phase, self._since = "setup", awake()
        self._began, self._restored_seconds = self._since, 0.0
        self._sampler: threading.Thread | None = None
        self._stop = threading.Event()
        self._waited = self._epoch_began = self._batch_ended = 0.0
        self._part = "data"

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        checkpoints = trainer.strategy.checkpoint_io = AtomicCheckpointIO()
        checkpoints.save_checkpoint = self.during("checkpoint")(checkpoints.save_checkpoint)  # type: ignore[method-assign]
        task = task_of(pl_module)
        task.decoder = TimedDecoder(task.decoder, self)

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Count the time spent within the context towards `phase`."""
        outer = self._enter(phase)
        try:
            yield
        finally:
            self._enter(outer)

    def close(self) -> None:
        """End the last phase and stop the sampling thread."""
        self._enter(self._phase)
        self._stop.set()
        if self._sampler is not None:
            self._sampler.join()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._enter("train")
        self._began = self._since - self._restored_seconds
        if not trainer.is_global_zero:
            return
        device, count = trainer.strategy.root_device, trainer.num_devices
        gpus = () if device.type == "cpu" else range(count) if count > 1 else [device.index or 0]
        self._sampler = threading.Thread(target=self._sample, args=(gpus,), daemon=True, name="utilisation")
        self._sampler.start()

    def on_train_end(self, *_: object) -> None:
        self._enter("setup")

    def on_validation_start(self, *_: object) -> None:
        self._enter("validate")

    def on_validation_end(self, *_: object) -> None:
        self._enter("train")

    def on_train_epoch_start(self, *_: object) -> None:
        self._waited = 0.0
        self._epoch_began = self._batch_ended = awake()

    def on_train_batch_start(self, *_: object) -> None:
        self._waited += awake() - self._batch_ended
        self._part = "forward"

    def on_before_backward(self, *_: object) -> None:
        self._part = "backward"

    def on_before_optimizer_step(self, *_: object) -> None:
        self._part = "update"

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: Batch, batch_idx: int
    ) -> None:
        self.audio_hours += int(batch.lengths.sum()) * trainer.world_size / SAMPLE_RATE / 3600
        self._batch_ended = awake()
        self._part = "data"
        if trainer.is_last_batch:
            percent = 100 * self._waited / (self._batch_ended - self._epoch_began)
            pl_module.log("train/waiting_percent", percent, on_step=False, on_epoch=True, batch_size=1)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        pl_module.log("time/seconds", awake() - self._began, on_epoch=True, batch_size=1)
        pl_module.log("time/audio_hours", self.audio_hours, on_epoch=True, batch_size=1)

    def state_dict(self) -> Json:
        seconds = awake() - self._began
        return {
            "seconds": seconds,
            "audio_hours": self.audio_hours,
            "phases": dict(self.phases),
            "processor_seconds": self.processor_seconds,
        }

    def load_state_dict(self, state_dict: Json) -> None:
        self._restored_seconds, self.audio_hours = state_dict["seconds"], state_dict["audio_hours"]
        self._processor_began -= state_dict["processor_seconds"]
        for phase, seconds in state_dict["phases"].items():
            self.phases[phase] = self.phases.get(phase, 0.0) + seconds

    @property
    def processor_seconds(self) -> float:
        return sum(os.times()[:4]) - self._processor_began

    def _enter(self, phase: str) -> str:
        """End the current phase and begin `phase`. Return the name of the phase that ended."""
        ended, now = self._phase, awake()
        self.phases[ended] = self.phases.get(ended, 0.0) + now - self._since
        self._phase, self._since = phase, now
        return ended

    def _sample(self, gpus: Sequence[int]) -> None:
        host = Host()
        host.read()  # the first reading only sets the reference for the next one
        with self.path.open("a", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, COLUMNS)
            if not file.tell():
                table.writeheader()
            while not self._stop.wait(self.interval):
                # this thread may run before the handler that notices a pause, so it must not reset the clock
                now = time.perf_counter() - awake.paused
                phase, part = self._phase, self._part  # read these before the slow counters
                counters: dict[str, float | str | None] = {**host.read(), **read_gpus(gpus)}
                row = {key: round(value, 3) if isinstance(value, float) else value for key, value in counters.items()}
                trained = {"seconds": round(now - self._began, 3), "audio_hours": round(self.audio_hours, 6)}
                table.writerow({**trained, "phase": phase, "part": part if phase == "train" else "", **row})
                file.flush()


class TimedDecoder:
    """Wraps a decoder, counts its time as the phase `decode`, and passes on its attributes."""

    def __init__(self, decoder: Decoder, utilisation: Utilisation) -> None:
        self._decoder, self._utilisation = decoder, utilisation

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        if log_probs.is_cuda:
            torch.cuda.synchronize()  # otherwise waiting for the forward pass would count as decoding
        with self._utilisation.during("decode"):
            return self._decoder(log_probs, lengths)

    def __getattr__(self, name: str) -> object:
        return getattr(self._decoder, name)


class Host:
    """Reads the processor, memory and disk counters of this process and its children, such as DataLoader workers."""

    CHILDREN_EVERY = 10
    """Number of readings between searches for new children. A search visits every process on the machine."""

    def __init__(self) -> None:
        self._processes = [psutil.Process()]
        self._readings = 0
        self._bytes_read: dict[psutil.Process, int] = {}

    def read(self) -> dict[str, float | None]:
        """Return the counters of this process and its children since the previous reading.

        cpu_percent: mean processor use; 100 means that all cores are busy.
        host_memory_gib: current resident memory; shared pages count once per process.
        disk_read_mib: data read from the disk rather than from the page cache; None if the system does not report it.
        """
        if self._readings % self.CHILDREN_EVERY == 0:
            previous = {process: process for process in self._processes}  # psutil's objects store their last counters
            own = self._processes[0]
            self._processes = [previous.get(process, process) for process in (own, *own.children(recursive=True))]
        self._readings += 1
        percent, resident, read = 0.0, 0, None
        for process in self._processes:
            with suppress(psutil.Error), process.oneshot():  # an error means that the process has ended
                percent += process.cpu_percent()
                resident += process.memory_info().rss
                with suppress(AttributeError, psutil.AccessDenied):  # macOS or a container may lack this counter
                    total = process.io_counters().read_bytes
                    read = (read or 0) + total - self._bytes_read.get(process, total)
                    self._bytes_read[process] = total
        return {
            "cpu_percent": min(100.0, percent / (psutil.cpu_count() or 1)),
            "host_memory_gib": resident / 2**30,
            "disk_read_mib": None if read is None else read / 2**20,
        }


def read_gpus(indices: Sequence[int]) -> dict[str, float | str | None]:
    """Return counters of the GPUs: percentage of time with a kernel running, total memory and total power.

    indices: GPU indices as in torch. A counter is None if a GPU or its driver does not provide it.
    """
    percents = _read_each(torch.cuda.utilization, indices)
    memory = _read_each(torch.cuda.device_memory_used, indices)
    milliwatts = _read_each(torch.cuda.power_draw, indices)
    return {
        "gpu_percent": sum(percents) / len(percents) if percents else None,
        "gpu_percents": " ".join(f"{share:g}" for share in percents) or None,
        "gpu_memory_gib": sum(memory) / 2**30 if memory else None,
        "gpu_power_watts": sum(milliwatts) / 1000 if milliwatts else None,
    }


def _read_each(counter: Callable[[int], int], indices: Sequence[int]) -> list[int]:
    try:
        return [counter(index) for index in indices]
    except Exception:  # a driver may raise any exception, and training should continue
        return []
