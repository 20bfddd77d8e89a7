"""Measure what Lightning's training loop costs compared with a bare loop, and what recording utilisation costs."""

import itertools
import statistics
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from scipy import stats

from asr_ablations.data.batch import Batch
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.tools.checks import number, whole
from asr_ablations.tools.machine import device_clock
from asr_ablations.training.callbacks.utilisation import Utilisation
from asr_benchmarks.project.training import BareTraining, drop_figures, fit_steps, prepare_corpus
from asr_benchmarks.tables import Result, fill_row
from asr_benchmarks.timing import check_counts, in_turn, noise_notes

FIGURES = "steps | lightning_seconds | bare_seconds | ratio | ratio_smallest | ratio_largest"


class Clock(pl.Callback):
    """Measures the wall time and the processor time of a training epoch, in seconds."""

    seconds = cpu = 0.0

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.started, self.cpu_started = device_clock(pl_module.device), time.process_time()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.seconds, self.cpu = device_clock(pl_module.device) - self.started, time.process_time() - self.cpu_started


def loop_overhead(cfg: DictConfig, *, steps: int, pairs: int) -> Result:
    """Time Lightning's loop and a bare loop over `steps` batches, alternately. Return median seconds and ratios."""
    check_counts(steps=steps, pairs=pairs)
    corpus = prepare_corpus(cfg)
    loops = {"lightning": _time_lightning, "bare": _time_bare}
    calls = {name: partial(loop, cfg, corpus, steps) for name, loop in loops.items()}
    timings = in_turn(calls, steps=pairs, warmup=1, title="pairs")
    lightning, bare = timings.values()
    ratios = [a / b for a, b in zip(lightning.seconds, bare.seconds, strict=True)]
    extent = (statistics.median(ratios), min(ratios), max(ratios))
    figures = fill_row(FIGURES, steps, lightning.median, bare.median, *extent)
    return Result(figures, notes=noise_notes(timings))


def _time_lightning(cfg: DictConfig, corpus: Corpus, steps: int) -> float:
    clock = Clock()
    fit_steps(cfg, corpus, steps, [clock], before=partial(read_ahead, steps=steps))
    return clock.seconds


def _time_bare(cfg: DictConfig, corpus: Corpus, steps: int) -> float:
    training = BareTraining(cfg, corpus)
    task, device = training.task, training.device
    parameters = list(task.model.parameters())
    optimizer = task.make_optimizer(task.model.named_parameters())
    schedule = task.make_schedule(optimizer, total_steps=len(read_ahead(training.data, steps)))

    def compute_features(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        features, lengths = task.normalised_features(batch)
        return task.augment(features, lengths, batch.ids, cfg.seed, 0), lengths

    step = training.make_step(task.model, compute_features, optimizer)
    started = device_clock(device)
    for batch in itertools.islice(training.data.train_dataloader(), steps):
        step(batch.to(device))
        task.gradient.after_step(parameters, drop_figures)
        schedule.step()
    return device_clock(device) - started


def read_ahead(data: SpeechData, steps: int) -> list[Batch]:
    """Read the first `steps` batches before the measurement, so that neither loop waits for the disk."""
    return list(itertools.islice(data.train_dataloader(), steps))


FEWEST_PAIRS = 6
"""Minimum number of pairs, because five pairs are too few for a 95 % confidence interval of a median."""


def utilisation_cost(cfg: DictConfig, *, steps: int, pairs: int, interval: float) -> Result:
    """Compare the training time with and without utilisation recording.

    The result has the median ratios of wall time and of processor time, with 95 % confidence intervals from order
    statistics. Each short training starts the sampling thread anew, whereas a normal run starts it only once.
    """
    whole("benchmark.steps", steps, 1)
    whole("benchmark.pairs", pairs, FEWEST_PAIRS)
    number("benchmark.interval", interval, above=0)
    corpus = prepare_corpus(cfg)
    clocks: dict[bool, list[Clock]] = {True: [], False: []}
    with TemporaryDirectory() as folder:

        def measure(recorded: bool) -> float:
            clock = Clock()
            recorders = [Utilisation(Path(folder), interval)] if recorded else []
            try:
                fit_steps(cfg, corpus, steps, [*recorders, clock], before=partial(read_ahead, steps=steps))
            finally:
                for recorder in recorders:
                    recorder.close()
            clocks[recorded].append(clock)
            return clock.seconds

        timings = in_turn({recorded: partial(measure, recorded) for recorded in clocks}, steps=pairs, warmup=1)
    figures: dict[str, object] = {"steps": steps, "pairs": pairs, "interval": interval}
    # the first training of each kind is the warm-up
    cpu = {recorded: tuple(clock.cpu for clock in done[1:]) for recorded, done in clocks.items()}
    seconds = {recorded: timing.seconds for recorded, timing in timings.items()}
    for name, by_record in {"seconds": seconds, "cpu": cpu}.items():
        figures[f"{name}_without"] = statistics.median(by_record[False])
        ratios = estimate_ratio(by_record[True], by_record[False])
        figures |= {f"{name}_{figure}": value for figure, value in ratios.items()}
    return Result(figures)


def estimate_ratio(above: Sequence[float], below: Sequence[float]) -> dict[str, float]:
    """Return the median `ratio` of above / below over all pairs, and its 95 % confidence interval."""
    ratios = sorted(a / b for a, b in zip(above, below, strict=True))
    rank = int(stats.binom.ppf(0.025, len(ratios), 0.5))
    return {"ratio": statistics.median(ratios), "ratio_low": ratios[rank - 1], "ratio_high": ratios[-rank]}
