"""Measure how fast audio is read into batches, by cache and number of workers, compared with the training step."""

import itertools
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from omegaconf import DictConfig

from asr_ablations.data.batch import Batch
from asr_ablations.data.datamodule import SpeechData, SpeechLoader
from asr_ablations.data.recording_cache import Cache
from asr_ablations.tools.machine import cores, device_clock
from asr_benchmarks.project.training import BareTraining, prepare_corpus, sum_hours
from asr_benchmarks.tables import Result, fill_row
from asr_benchmarks.timing import check_counts, in_turn, noise_notes

COLUMNS = "cache | workers | audio_hours_per_second | times_real_time_per_core | over_model | spread %"

STEPS = 4
"""Approximate number of batches on which the training step is measured, spread evenly over all batches."""


def input_speed(
    cfg: DictConfig, *, caches: Mapping[str, Cache], workers: list[int], batches: int, repeats: int
) -> Result:
    """Measure hours of audio per second in the training step, and in the loader by cache and number of workers."""
    check_counts(0, workers=workers)
    check_counts(batches=batches, repeats=repeats)
    # torch warns if there are more workers than cores, but this benchmark may measure that on purpose
    warnings.filterwarnings("ignore", ".*DataLoader will create.*")
    training = BareTraining(cfg, prepare_corpus(cfg))
    loaders = {
        (name, n): _make_loader(training.data, cache, n, batches) for name, cache in caches.items() for n in workers
    }
    read = list(next(iter(loaders.values())))
    few = read[:: max(1, len(read) // STEPS)]
    step: Callable[[Batch], None] = training.make_step(training.task.model)
    calls = {("model", 0): partial(_time, partial(_train, training, step, few))}
    calls |= {key: partial(_time, partial(iter, loader)) for key, loader in loaders.items()}
    # the warm-up starts the workers and fills the page cache
    timings = in_turn(calls, steps=repeats, warmup=1)
    names = {key: f"{key[0]}, {key[1]} workers" if key[0] != "model" else "model" for key in timings}
    notes = noise_notes({names[key]: timing for key, timing in timings.items()})
    model = sum_hours(few) / timings.pop(("model", 0)).median
    rows = []
    for (cache, count), timing in timings.items():
        rate = sum_hours(read) / timing.median
        per_core = rate * 3600 / min(max(1, count), cores())
        rows.append(fill_row(COLUMNS, cache, count, rate, per_core, rate / model, timing.spread))
    return Result({"model_audio_hours_per_second": model, "batches": len(read)}, {"rows": rows}, notes)


def _make_loader(data: SpeechData, cache: Cache, workers: int, batches: int) -> SpeechLoader:
    """Return a loader that reads the first `batches` batches of the first epoch from a cache."""
    data.cache, data.workers, data.sets = cache, workers, {}
    data.setup()
    loader = data.train_dataloader()
    # plain lists do not depend on the epoch number, so every pass reads the same batches
    first = [list(batch) for batch in itertools.islice(loader.batch_sampler or (), batches)]
    return SpeechLoader(loader.dataset, first, workers, pinned=loader.pin_memory)


def _train(training: BareTraining, step: Callable[[Batch], None], batches: list[Batch]) -> Iterator[Batch]:
    """Train on each batch, wait for the device, and yield the batch."""
    for batch in batches:
        step(batch.to(training.device))
        device_clock(training.device)
        yield batch


def _time(batches: Callable[[], Iterator[Batch]]) -> float:
    """Return the seconds until all batches are yielded."""
    started = time.perf_counter()
    deque(batches(), maxlen=0)
    return time.perf_counter() - started
