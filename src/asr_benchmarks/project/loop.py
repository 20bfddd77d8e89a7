"""Cost of Lightning's loop: the same model over the same batches, through the Trainer and in a bare loop."""

import itertools
import statistics
from functools import partial
from tempfile import TemporaryDirectory

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from pytorch_lightning.loggers import CSVLogger

from asr_ablations.config.build import build
from asr_ablations.data.batch import Batch
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.tools.machine import device_clock
from asr_ablations.training.assembly import assemble, device_count, trainer
from asr_ablations.training.callbacks.progress import ProgressBar
from asr_ablations.training.callbacks.throughput import Throughput
from asr_benchmarks.project.bare_step import update
from asr_benchmarks.tables import Result
from asr_benchmarks.timing import check_counts, in_turn, noise_notes


class Clock(pl.Callback):
    """Seconds from the start of the first training batch to the end of the last."""

    seconds = 0.0

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.started = device_clock(pl_module.device)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.seconds = device_clock(pl_module.device) - self.started


def loop_overhead(cfg: DictConfig, *, steps: int, pairs: int) -> Result:
    """Median seconds of both loops over `steps` batches, measured in turn, and the median of their ratios."""
    check_counts(steps=steps, pairs=pairs)
    corpus = build(cfg.data)
    corpus.prepare()
    loops = {"lightning": _through_lightning, "bare": _bare}
    calls = {name: partial(loop, cfg, corpus, steps) for name, loop in loops.items()}
    timings = in_turn(calls, steps=pairs, warmup=1, title="pairs")
    lightning, bare = timings.values()
    ratios = [a / b for a, b in zip(lightning.seconds, bare.seconds, strict=True)]
    figures: dict[str, object] = {
        "steps": steps,
        "lightning_seconds": lightning.median,
        "bare_seconds": bare.median,
        "ratio": statistics.median(ratios),
        "ratio_smallest": min(ratios),
        "ratio_largest": max(ratios),
    }
    return Result(figures, notes=noise_notes(timings))


def _through_lightning(cfg: DictConfig, corpus: Corpus, steps: int) -> float:
    task, data = assemble(cfg, corpus)
    data.setup()
    clock = Clock()
    with TemporaryDirectory() as folder:
        callbacks = [Throughput(), ProgressBar(False, quiet=True), clock]
        loggers = [CSVLogger(folder, name="", version="")]
        fitter = trainer(
            *(cfg, device_count(cfg), loggers, callbacks), max_epochs=1, limit_train_batches=steps, limit_val_batches=0
        )
        _read_ahead(data, steps)
        fitter.fit(task, data)
    return clock.seconds


def _bare(cfg: DictConfig, corpus: Corpus, steps: int) -> float:
    task, data = assemble(cfg, corpus)
    data.setup()
    device = torch.device("cuda" if device_count(cfg) else "cpu")
    task.to(device).train()
    batches = _read_ahead(data, steps)
    optimizer = task.make_optimizer(task.model.parameters())
    schedule = task.make_schedule(optimizer, total_steps=len(batches))
    precision = trainer(cfg, device_count(cfg), [], []).precision_plugin
    started = device_clock(device)
    for step, batch in enumerate(itertools.islice(data.train_dataloader(), steps)):
        batch = batch.to(device)
        with precision.forward_context():
            features, lengths = task.normalised_features(batch)
            features = task.augment(features, lengths, batch.ids, cfg.seed, 0)
            loss = task.loss(*task.log_probs(features, lengths), batch)
        parameters = list(task.model.parameters())
        treat = partial(task.gradient.before_step, parameters, step=step, seed=cfg.seed, log=unlogged)
        update(loss, optimizer, treat, getattr(precision, "scaler", None))
        task.gradient.after_step(parameters, unlogged)
        schedule.step()
    return device_clock(device) - started


def unlogged(*arguments: object, **options: object) -> None:
    """A log function that drops the figures of a step."""


def _read_ahead(data: SpeechData, steps: int) -> list[Batch]:
    """Read the audio of the first batches, so that neither loop waits for the disk."""
    return list(itertools.islice(data.train_dataloader(), steps))
