"""How fast audio is read into batches: every cache, several numbers of workers, and the model's step beside them."""

import itertools
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from omegaconf import DictConfig
from rich.progress import Progress

from asr_ablations import SAMPLE_RATE
from asr_ablations.assembly import assemble, device_count, trainer
from asr_ablations.config import build
from asr_ablations.data.loader import SpeechLoader
from asr_ablations.data.module import SpeechData
from asr_ablations.data.utterance import Batch
from asr_ablations.errors import choices
from asr_ablations.machine import cores, device_clock
from asr_ablations.task import CTCTask

STEPS = 4
"""Batches that the model is measured over, spread over those that are read."""


def input_speed(
    cfg: DictConfig, *, caches: dict[str, Any], workers: list[int], batches: int, repeats: int
) -> dict[str, Any]:
    """Medians of audio hours a second: of the model's step, and in `rows` of the loader alone from each cache."""
    for name, values in {"workers": workers, "batches": [batches], "repeats": [repeats]}.items():
        smallest = int(name != "workers")
        if not all(isinstance(value, int) and value >= smallest for value in values):
            raise choices(f"benchmark.{name}", values, f"whole numbers, {smallest} or more")
    warnings.filterwarnings("ignore", ".*DataLoader will create.*")  # more workers than cores: that is the question
    corpus = build(cfg.data)
    corpus.prepare()
    task, data = assemble(cfg, corpus)
    loaders = {(name, n): _loader(data, cache, n, batches) for name, cache in caches.items() for n in workers}
    read = list(loaders[next(iter(loaders))])
    step = _step(cfg, task, read)
    measured: dict[Any, list[float]] = {key: [] for key in ["model", *loaders]}
    with Progress(transient=True) as bars:
        # one more than asked for: the first starts the workers and fills the page cache
        for number in bars.track(range(repeats + 1), description="measuring"):
            for key in measured:
                rate = _rate(step) if key == "model" else _rate(lambda key=key: loaders[key])  # type: ignore[misc]
                measured[key] += [rate] if number else []
    model, *rates = (statistics.median(found) for found in measured.values())
    rows = [_row(name, n, rate, model) for (name, n), rate in zip(loaders, rates, strict=True)]
    return {"model_audio_hours_per_second": model, "batches": len(read), "rows": rows}


def _loader(data: SpeechData, cache: Any, workers: int, batches: int) -> SpeechLoader:
    """The first batches of the first epoch, read from this cache."""
    data.cache, data.workers, data.sets = cache, workers, {}
    data.setup()
    loader = data.train_dataloader()
    first = [list(batch) for batch in itertools.islice(loader.batch_sampler or (), batches)]  # without their epoch
    return SpeechLoader(loader.dataset, first, workers)


def _step(cfg: DictConfig, task: CTCTask, batches: list[Batch]) -> Callable[[], Any]:
    """Trains on some of the batches, one after another, and gives them back."""
    device = torch.device("cuda" if device_count(cfg) else "cpu")
    task.to(device).train()
    optimizer = task.make_optimizer(task.model.parameters())
    precision = trainer(cfg, device_count(cfg), [], []).precision_plugin

    def step() -> Any:
        for batch in batches[:: max(1, len(batches) // STEPS)]:
            moved = batch.to(device)
            with precision.forward_context():
                features, lengths = task._features(moved)
                loss = task.loss(*task._log_probs(features, lengths), moved)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            device_clock(device)
            yield batch

    return step


def _rate(batches: Callable[[], Any]) -> float:
    """Audio hours a second of what the batches hold."""
    started = time.perf_counter()
    samples = sum(int(batch.lengths.sum()) for batch in batches())
    return samples / SAMPLE_RATE / 3600 / (time.perf_counter() - started)


def _row(cache: str, workers: int, rate: float, model: float) -> dict[str, Any]:
    used = min(max(1, workers), cores())
    return {
        "cache": cache,
        "workers": workers,
        "audio_hours_per_second": rate,
        "times_real_time_a_core": rate * 3600 / used,
        "over_model": rate / model,
    }
