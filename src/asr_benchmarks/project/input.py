"""Speed of reading audio into batches: from every cache, with several numbers of workers, beside the model's step."""

import itertools
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
from omegaconf import DictConfig

from asr_ablations import SAMPLE_RATE
from asr_ablations.config.build import build
from asr_ablations.data.batch import Batch
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.data.dataset import SpeechLoader
from asr_ablations.data.recording_cache import Cache
from asr_ablations.tools.checks import is_whole
from asr_ablations.tools.machine import cores, device_clock
from asr_ablations.training.assembly import assemble, device_count, trainer
from asr_ablations.training.task import CTCTask
from asr_benchmarks.tables import Result, Row
from asr_benchmarks.timing import Timing, in_turn, noise_notes
from asr_verdicts.errors import choices

STEPS = 4
"""Batches that the model is measured on, spread over those that are read."""


def input_speed(
    cfg: DictConfig, *, caches: Mapping[str, Cache], workers: list[int], batches: int, repeats: int
) -> Result:
    """Hours of audio per second (median): of the model's training step, and of the loader alone from each cache."""
    for name, values in {"workers": workers, "batches": [batches], "repeats": [repeats]}.items():
        least = 0 if name == "workers" else 1
        if not all(is_whole(value, least) for value in values):
            raise choices(f"benchmark.{name}", values, f"whole numbers, {least} or more")
    # more workers than cores are what is measured here
    warnings.filterwarnings("ignore", ".*DataLoader will create.*")
    corpus = build(cfg.data)
    corpus.prepare()
    task, data = assemble(cfg, corpus)
    loaders = {(name, n): _loader(data, cache, n, batches) for name, cache in caches.items() for n in workers}
    read = list(loaders[next(iter(loaders))])
    few = read[:: max(1, len(read) // STEPS)]
    calls = {"model": partial(_seconds, _step(cfg, task, few))}
    calls |= {_name(*key): partial(_seconds, partial(iter, loader)) for key, loader in loaders.items()}
    # the warm-up starts the workers and fills the page cache
    timings = in_turn(calls, steps=repeats, warmup=1)
    model = _hours(few) / timings["model"].median
    rows = [_row(*key, _hours(read), timings[_name(*key)], model) for key in loaders]
    figures: dict[str, object] = {"model_audio_hours_per_second": model, "batches": len(read)}
    return Result(figures, {"rows": rows}, noise_notes(timings))


def _name(cache: str, workers: int) -> str:
    return f"{cache}, {workers} workers"


def _loader(data: SpeechData, cache: Cache, workers: int, batches: int) -> SpeechLoader:
    """A loader of the first batches of the first epoch, read from this cache."""
    data.cache, data.workers, data.sets = cache, workers, {}
    data.setup()
    loader = data.train_dataloader()
    first = [list(batch) for batch in itertools.islice(loader.batch_sampler or (), batches)]  # without their epoch
    return SpeechLoader(loader.dataset, first, workers, pinned=loader.pin_memory)


def _step(cfg: DictConfig, task: CTCTask, batches: list[Batch]) -> Callable[[], Iterator[Batch]]:
    """A function that trains on the batches, one after another, and yields them."""
    device = torch.device("cuda" if device_count(cfg) else "cpu")
    task.to(device).train()
    optimizer = task.make_optimizer(task.model.parameters())
    precision = trainer(cfg, device_count(cfg), [], []).precision_plugin

    def step() -> Iterator[Batch]:
        for batch in batches:
            moved = batch.to(device)
            with precision.forward_context():
                features, lengths = task.normalised_features(moved)
                loss = task.loss(*task.log_probs(features, lengths), moved)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            device_clock(device)
            yield batch

    return step


def _seconds(batches: Callable[[], Iterator[Batch]]) -> float:
    """Seconds until all batches were yielded."""
    started = time.perf_counter()
    deque(batches(), maxlen=0)
    return time.perf_counter() - started


def _hours(batches: list[Batch]) -> float:
    """Hours of audio in the batches, without padding."""
    return sum(int(batch.lengths.sum()) for batch in batches) / SAMPLE_RATE / 3600


def _row(cache: str, workers: int, hours: float, timing: Timing, model: float) -> Row:
    used, rate = min(max(1, workers), cores()), hours / timing.median
    return {
        "cache": cache,
        "workers": workers,
        "audio_hours_per_second": rate,
        "times_real_time_per_core": rate * 3600 / used,
        "over_model": rate / model,
        "spread %": timing.spread,
    }
