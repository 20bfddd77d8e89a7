"""Estimate the cost of a sweep from a few measured steps of every arm on this machine, without training the arms."""

import math
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from rich.progress import track

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.batch import Batch
from asr_ablations.data.datamodule import SpeechData, SpeechLoader
from asr_ablations.experiment.run import set_up
from asr_ablations.runs.status import RESULTS, fate_of
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.live import label_arms, make_table
from asr_ablations.sweep.processes import in_subprocess
from asr_ablations.tools.machine import available_memory, device_clock, peak_memory
from asr_ablations.training.assembly import device_count, trainer
from asr_ablations.training.lightning_warnings import silence_lightning
from asr_ablations.training.task import CTCTask
from asr_verdicts.config import ranks
from asr_verdicts.terminal import console


class Cost(NamedTuple):
    """Estimated cost of one arm.

    steps: number of optimizer steps. speech: hours of training audio. seconds: duration of the run. gpus: number of
    GPUs. memory: bytes of GPU memory, or of main memory on a CPU. disk: bytes of checkpoints.
    """

    steps: int
    speech: float
    seconds: float
    gpus: int
    memory: int
    disk: int

    @property
    def gpu_hours(self) -> float:
        return self.gpus * self.seconds / 3600


RESERVE = 0.5
"""Fraction of the estimated time to add to a time limit, because machines differ and may be shared."""
START = 120
"""Seconds to add to a time limit for imports and for loading data."""
FEWER_EPOCHS = (
    "fewer epochs cost less and decide less: of 7 verdicts after a third of the epochs, 4 were the same after all "
    "epochs, on the built-in corpus (docs/short_runs.md)"
)
"""Note printed under the plan. Its numbers come from short_runs_at_2 and short_runs in sweeps/records."""
STEPS = 5
"""Number of timed batches, evenly spread from the shortest to the longest, after one warm-up batch."""


def measure(request: tuple[DictConfig, int]) -> Cost:
    """Measure the cost of a config. request: config and number of threads. Needs a new process to read peak memory."""
    cfg, threads = request
    cfg.threads = cfg.threads or threads
    silence_lightning()
    _, task, data = set_up(cfg)
    train, checkpoint = _time_training(cfg, task, data)
    recognition = _time_recognition(task, data)
    sets = {name: float(speech.durations.sum()) for name, speech in data.sets.items()}
    validation = sum(sets[name] for name in data.corpus.validation)
    test = sum(sets[name] for name in data.corpus.test)
    recognised = cfg.max_epochs * validation + validation + test
    together = ranks(cfg)  # ranks share the work of every step; their communication is assumed to take no time
    seconds = cfg.max_epochs * sets["train"] * train / together + recognised * recognition
    gpus = together * int(next(task.model.parameters()).is_cuda)
    batches = -(-len(data.train_dataloader()) // together)
    steps = -(-batches // cfg.batch.accumulate) * cfg.max_epochs
    speech = cfg.max_epochs * sets["train"] / 3600
    memory = int(torch.cuda.max_memory_reserved()) if gpus else peak_memory()
    return Cost(steps, speech, seconds, gpus, memory, disk=2 * checkpoint)


class StepClock(pl.Callback):
    """Measures the duration of all training steps but the first, and of the audio in their batches, in seconds."""

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
            self.audio += float(batch.lengths.sum()) / SAMPLE_RATE


def _time_training(cfg: DictConfig, task: CTCTask, data: SpeechData) -> tuple[float, int]:
    """Return training seconds per second of audio, and a checkpoint's size in bytes, measured in Lightning's loop."""
    durations, order = data.sets["train"].durations, data.train_dataloader().batch_sampler
    assert order is not None
    by_length = sorted(order, key=lambda batch: max(durations[i] for i in batch))
    batches = [by_length[round(i * (len(by_length) - 1) / (STEPS - 1))] for i in range(STEPS)]
    clock, devices = StepClock(), device_count(cfg)
    loader = SpeechLoader(data.sets["train"], [batches[-1], *batches], workers=0, pinned=devices > 0)
    options: Any = {"configured": task.callbacks, "max_epochs": 1, "limit_val_batches": 0}
    fitter = trainer(cfg, devices, [], [clock], **options)
    fitter.fit(task, loader, val_dataloaders=[loader])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "measured.ckpt"
        fitter.save_checkpoint(path)
        return clock.seconds / clock.audio, path.stat().st_size


def _time_recognition(task: CTCTask, data: SpeechData) -> float:
    """Return seconds of recognition per second of audio, measured on the longest utterances of a validation set."""
    batch = next(iter(data.evaluation_dataloader(data.corpus.validation[0])))
    task.eval()
    for _ in range(2):  # the first round is a warm-up
        started = device_clock(task.device)
        with torch.inference_mode():
            task.decoder(*task(batch.to(task.device)))
        seconds = device_clock(task.device) - started
    return seconds * SAMPLE_RATE / float(batch.lengths.sum())


def show_plan(arms: Sequence[FrozenArm], jobs: int, threads: int) -> None:
    """Print the cost of each arm without a result, and the total. jobs: arms at a time. threads: threads per arm."""
    fates = [fate_of(arm.folder).state for arm in arms]
    to_run = [arm for arm, state in zip(arms, fates, strict=True) if state not in RESULTS]
    costs = dict(zip([arm.id for arm in to_run], measure_arms(to_run, threads), strict=True))
    terminal = console()
    columns = ["arm", "steps", "time", "GPU hours", "memory GiB", "disk MiB"]
    table = make_table("plan: nothing was trained", columns)
    for name, arm, state in zip(label_arms([arm.overrides for arm in arms]), arms, fates, strict=True):
        if state in RESULTS:
            table.add_row(name, state)
            continue
        cost = costs[arm.id]
        sizes = f"{cost.gpu_hours:.2f}", f"{cost.memory / 2**30:.2f}", f"{cost.disk / 2**20:.0f}"
        table.add_row(name, str(cost.steps), _clock(cost.seconds), *sizes)
    terminal.print(table)
    each = [costs[arm.id] for arm in to_run]
    lines = [_total(each, len(arms), jobs), memory_warning(each, jobs, available_memory())]
    if each:
        lines.append("measured with a few steps of each arm on this machine, one arm at a time")
    if len({arm.kind for arm in arms}) > 1:
        lines.append(FEWER_EPOCHS)
    terminal.print(*filter(None, lines), sep="\n", soft_wrap=True)


def estimate_minutes(arms: Sequence[FrozenArm], threads: int) -> int:
    """Return a time limit in minutes for the slowest arm: the estimated time, plus RESERVE and START."""
    one_of_each = {arm.kind: arm for arm in arms}.values()  # runs that differ only in the seed take equally long
    seconds = max(cost.seconds for cost in measure_arms([*one_of_each], threads))
    return math.ceil((seconds * (1 + RESERVE) + START) / 60)


def measure_arms(arms: Sequence[FrozenArm], threads: int) -> list[Cost]:
    """Measure the cost of each arm in a few steps, one arm after the other. threads: number of threads per arm."""
    return [in_subprocess(measure, (arm.cfg, threads)) for arm in track(arms, description="measuring", transient=True)]


def _total(costs: Sequence[Cost], arms: int, jobs: int) -> str:
    """Return a line with the total cost of the arms that have no result yet. arms: number of arms in the sweep."""
    seconds, side_by_side = sum(cost.seconds for cost in costs), max(1, min(jobs, len(costs)))
    return (
        f"to run: {len(costs)} of {arms} arms, {_clock(seconds)} in total, {_clock(seconds / side_by_side)} with "
        f"{side_by_side} at a time; {sum(cost.speech for cost in costs):.3g} hours of speech; "
        f"{sum(cost.gpu_hours for cost in costs):.2f} GPU hours; "
        f"{sum(cost.disk for cost in costs) / 2**20:.0f} MiB of checkpoints"
    )


def memory_warning(costs: Sequence[Cost], jobs: int, free: int | None) -> str | None:
    """Return a warning if `jobs` simultaneous arms on a CPU may need more than `free` bytes of memory, else None."""
    together = [*accumulate(sorted((cost.memory for cost in costs if not cost.gpus), reverse=True)[:jobs])]
    if free is None or not together or together[-1] <= free:
        return None
    fitting = max(1, sum(memory <= free for memory in together))
    return f"too little memory for {jobs} arms at a time: set hydra.launcher.jobs={fitting}"


def _clock(seconds: float) -> str:
    """Format seconds as hours:minutes:seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
