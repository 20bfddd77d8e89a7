"""Sample a training run's use of the machine over time (Baunsgaard2020 §5.2, figures 8 and 9)."""

import csv
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
from asr_ablations.training.checkpoints import AtomicCheckpointIO
from asr_ablations.training.contracts import Decoder
from asr_ablations.training.task import task_of
from asr_verdicts.files import Json


class Utilisation(pl.Callback):
    """Writes utilisation.csv into `folder` every `interval` seconds, from a separate thread.

    phases: seconds in each of setup, train, validate, decode, checkpoint and evaluate, from the construction of this
    object to `close`; validate and evaluate do not include decode. Samples begin with training; a resumed run continues
    the table. In the phase train they name the host's part of the step (the device may be behind): data (between two
    batches), forward, backward or update.

    Logs for each epoch:
    - train/waiting_percent: the share (%) of training time between a batch's end and the next batch's start, including
      Lightning's accounting and loggers. It is an upper bound for a GPU, which may be busy meanwhile.
    - time/seconds, with the validation: wall time since training began.
    - time/audio_hours, with the validation: audio trained on so far, without padding.
    """

    def __init__(self, folder: Path, interval: float) -> None:
        self.phases: dict[str, float] = {}
        self.path, self.interval = folder / UTILISATION, interval
        self.audio_hours = 0.0
        self._phase, self._since = "setup", time.perf_counter()
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
        """Count the time within the context as `phase`."""
        outer = self._enter(phase)
        try:
            yield
        finally:
            self._enter(outer)

    def close(self) -> None:
        """End the thread and the last phase."""
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
        on_gpu = [device.index or 0] if count == 1 else range(count)
        indices = on_gpu if device.type == "cuda" else ()
        self._sampler = threading.Thread(target=self._sample, args=(indices,), daemon=True, name="utilisation")
        self._sampler.start()

    def on_train_end(self, *_: object) -> None:
        self._enter("setup")

    def on_validation_start(self, *_: object) -> None:
        self._enter("validate")

    def on_validation_end(self, *_: object) -> None:
        self._enter("train")

    def on_train_epoch_start(self, *_: object) -> None:
        self._waited = 0.0
        self._epoch_began = self._batch_ended = time.perf_counter()

    def on_train_batch_start(self, *_: object) -> None:
        self._waited += time.perf_counter() - self._batch_ended
        self._part = "forward"

    def on_before_backward(self, *_: object) -> None:
        self._part = "backward"

    def on_before_optimizer_step(self, *_: object) -> None:
        self._part = "update"

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: Batch, batch_idx: int
    ) -> None:
        self.audio_hours += int(batch.lengths.sum()) * trainer.world_size / SAMPLE_RATE / 3600
        self._batch_ended = time.perf_counter()
        self._part = "data"
        if trainer.is_last_batch:
            percent = 100 * self._waited / (self._batch_ended - self._epoch_began)
            pl_module.log("train/waiting_percent", percent, on_step=False, on_epoch=True, batch_size=1)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        pl_module.log("time/seconds", time.perf_counter() - self._began, on_epoch=True, batch_size=1)
        pl_module.log("time/audio_hours", self.audio_hours, on_epoch=True, batch_size=1)

    def state_dict(self) -> Json:
        seconds = time.perf_counter() - self._began
        return {"seconds": seconds, "audio_hours": self.audio_hours, "phases": dict(self.phases)}

    def load_state_dict(self, state_dict: Json) -> None:
        self._restored_seconds, self.audio_hours = state_dict["seconds"], state_dict["audio_hours"]
        for phase, seconds in state_dict["phases"].items():
            self.phases[phase] = self.phases.get(phase, 0.0) + seconds

    def _enter(self, phase: str) -> str:
        """End the current phase and start `phase`; return the name of the ended phase."""
        ended, now = self._phase, time.perf_counter()
        self.phases[ended] = self.phases.get(ended, 0.0) + now - self._since
        self._phase, self._since = phase, now
        return ended

    def _sample(self, gpus: Sequence[int]) -> None:
        host = Host()
        with self.path.open("a", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, COLUMNS)
            if not file.tell():
                table.writeheader()
            last = time.perf_counter()
            host.read(1)  # starts the counters
            while not self._stop.wait(self.interval):
                now, phase, part = time.perf_counter(), self._phase, self._part  # reading the counters takes a while
                counters: dict[str, float | str | None] = {**host.read(now - last), **read_gpus(gpus)}
                last = now
                row = {key: round(value, 3) if isinstance(value, float) else value for key, value in counters.items()}
                trained = {"seconds": round(now - self._began, 3), "audio_hours": round(self.audio_hours, 6)}
                table.writerow({**trained, "phase": phase, "part": part if phase == "train" else "", **row})
                file.flush()


class TimedDecoder:
    """Wraps `decoder` and counts its time as the phase `decode`; all other attributes are the decoder's."""

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
    """Processor, memory and disk use of this process and its children, which read audio."""

    CHILDREN_EVERY = 10
    """Readings between two searches for new children, which visit every process of the machine."""

    def __init__(self) -> None:
        self._processes = [psutil.Process()]
        self._cores = psutil.cpu_count() or 1
        self._readings = 0
        self._before: dict[tuple[int, str], float] = {}

    def read(self, seconds: float) -> dict[str, float | None]:
        """Return means over the `seconds` since the last reading, and the current memory.

        cpu_percent: 100 is all cores. host_memory_gib: resident memory; shared pages count in each process.
        disk_read_mib: data from the disk, not from the page cache; None if the system does not report it.
        """
        if self._readings % self.CHILDREN_EVERY == 0:
            self._processes = [self._processes[0], *self._processes[0].children(recursive=True)]
        self._readings += 1
        busy, resident, read = 0.0, 0, None
        for process in self._processes:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    busy += self._added(process, "busy", times.user + times.system)
                    resident += process.memory_info().rss
                    with suppress(AttributeError, psutil.AccessDenied):
                        # macOS has no such counter, and a container may hide it
                        read = (read or 0) + self._added(process, "read", process.io_counters().read_bytes)
            except psutil.Error:  # the process has ended
                continue
        percent = 100 * busy / max(seconds, 1e-6) / self._cores
        return {
            "cpu_percent": min(100.0, percent),
            "host_memory_gib": resident / 2**30,
            "disk_read_mib": None if read is None else read / 2**20,
        }

    def _added(self, process: psutil.Process, counter: str, now: float) -> float:
        """Return the increase of a process's counter since the last reading."""
        before = self._before.get((process.pid, counter), now)
        self._before[process.pid, counter] = now
        return now - before


def read_gpus(indices: Sequence[int]) -> dict[str, float | str | None]:
    """Return the percentage of time in which a kernel ran, mean and per GPU, and total memory and power.

    indices: of torch. A counter that a GPU or its driver lacks is None.
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
    except Exception:  # whatever a driver does, training continues
        return []
