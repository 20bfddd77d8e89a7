"""The cost of one arm, measured: a few steps of training and the recognition of one batch."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.batch import Batch
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.data.loader import SpeechLoader
from asr_ablations.experiment.run import set_up
from asr_ablations.runs.identity import ranks
from asr_ablations.runs.process import load_frozen
from asr_ablations.sweep.cost import Cost
from asr_ablations.tools.machine import device_clock, peak_memory
from asr_ablations.training.assembly import device_count, trainer
from asr_ablations.training.quiet import quiet
from asr_ablations.training.task import CTCTask

STEPS = 5
"""Batches that are timed, evenly spread over the durations of the training set, after one that is not timed."""


def measure(config: Path, threads: int) -> Cost:
    """The cost of the arm with this frozen config; it takes this process for itself, whose peak memory it reports."""
    cfg = load_frozen(config)
    cfg.threads = cfg.threads or threads
    quiet()
    _, task, data = set_up(cfg)
    train, checkpoint = _time_training(cfg, task, data)
    recognition = _time_recognition(task, data)
    sets = {name: float(speech.durations.sum()) for name, speech in data.sets.items()}
    validation = sum(sets[name] for name in data.corpus.validation)
    test = sum(sets[name] for name in data.corpus.test)
    recognised = cfg.max_epochs * validation + validation + test
    together = ranks(cfg)  # they share the work of every step; that they talk to each other is taken to cost no time
    seconds = cfg.max_epochs * sets["train"] * train / together + recognised * recognition
    gpus = together * int(next(task.model.parameters()).is_cuda)
    batches = -(-len(data.train_dataloader()) // together)
    steps = -(-batches // cfg.batch.accumulate) * cfg.max_epochs
    speech = cfg.max_epochs * sets["train"] / 3600
    return Cost(steps, speech, seconds, gpus, _peak_memory(gpus), disk=2 * checkpoint)


class StepClock(pl.Callback):
    """The time of every training step but the first, and the audio in them, both in seconds."""

    def __init__(self) -> None:
        self.seconds = self.audio = 0.0
        self._started = 0.0

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Batch, batch_idx: int
    ) -> None:
        self._started = device_clock(pl_module.device)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: Batch, batch_idx: int
    ) -> None:
        ended = device_clock(pl_module.device)
        if batch_idx:
            self.seconds += ended - self._started
            self.audio += _seconds_of_audio(batch)


def _time_training(cfg: DictConfig, task: CTCTask, data: SpeechData) -> tuple[float, int]:
    """Seconds of training per second of audio, and bytes of a checkpoint, from real steps of Lightning's loop."""
    clock, batches = StepClock(), _spread_batches(data)
    pinned = device_count(cfg) > 0
    loader = SpeechLoader(data.sets["train"], [batches[-1], *batches], workers=0, pinned=pinned)
    fitter = trainer(cfg, device_count(cfg), [], [clock], max_epochs=1, limit_val_batches=0)
    fitter.fit(task, loader, val_dataloaders=[loader])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "measured.ckpt"
        fitter.save_checkpoint(path)
        return clock.seconds / clock.audio, path.stat().st_size


def _spread_batches(data: SpeechData) -> Sequence[list[int]]:
    """Some batches of the training set, from that with the shortest utterances to that with the longest."""
    durations, order = data.sets["train"].durations, data.train_dataloader().batch_sampler
    assert order is not None
    batches = sorted(order, key=lambda batch: max(durations[i] for i in batch))
    return [batches[round(i * (len(batches) - 1) / max(1, STEPS - 1))] for i in range(STEPS)]


def _time_recognition(task: CTCTask, data: SpeechData) -> float:
    """Seconds of recognition per second of audio, from the longest utterances of the first validation set."""
    batch = next(iter(data.evaluation_dataloader(data.corpus.validation[0])))
    task.eval()
    seconds = 0.0
    for _ in range(2):  # the first one warms up
        started = device_clock(task.device)
        with torch.inference_mode():
            task.decoder(*task(batch.to(task.device)))
        seconds = device_clock(task.device) - started
    return seconds / _seconds_of_audio(batch)


def _seconds_of_audio(batch: Batch) -> float:
    return float(batch.lengths.sum()) / SAMPLE_RATE


def _peak_memory(gpus: int) -> int:
    """Bytes at most: of the GPU where there is one, else of this process."""
    return int(torch.cuda.max_memory_reserved()) if gpus else peak_memory()
