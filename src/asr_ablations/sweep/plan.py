"""What a sweep would cost on this machine, before it is spent: a few steps of every arm, nothing trained."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from asr_ablations.runs.identity import ranks
from asr_ablations.runs.process import load_frozen
from asr_ablations.runs.status import status_of
from asr_ablations.sweep.arm import Arm
from asr_ablations.sweep.processes import ask
from asr_ablations.sweep.slots import Slots, share_of_cores
from asr_ablations.sweep.terminal import what_varies
from asr_ablations.tools.machine import device_clock, peak_memory

STEPS = 5
"""Batches that are timed, evenly spread over the durations of the training set, after one that is not."""


@dataclass(frozen=True)
class Cost:
    """Of one arm, estimated: seconds for everything, bytes of memory (of the GPU where there is one) and of disk."""

    steps: int
    seconds: float
    gpus: int
    memory: int
    disk: int


def show_plan(arms: Sequence[Arm], slots: Slots) -> list[Cost | None]:
    """Print hours, GPU hours, memory and disk an arm and in all; None for arms that are done already."""
    threads = share_of_cores(min(slots.jobs, len(arms)))
    costs = []
    for arm in track(arms, description="measuring", transient=True):
        done = (status_of(arm.folder) or {}).get("status") == "done"
        costs.append(None if done else ask(measure, (str(arm.config), threads)))
    _print(arms, costs, slots)
    return costs


def measure(request: tuple[str, int]) -> Cost:
    """In a process of its own: the cost of the arm whose frozen config lies at a path."""
    from asr_ablations.experiment.run import set_up
    from asr_ablations.training.quiet import quiet

    path, threads = Path(request[0]), request[1]
    cfg = load_frozen(path)
    cfg.threads = cfg.threads or threads
    quiet()
    _, task, data = set_up(cfg)
    train, size = _time_training(cfg, task, data)
    sets = {name: float(speech.durations.sum()) for name, speech in data.sets.items()}
    recognise = _time_recognition(task, data)
    validation = sum(sets[name] for name in data.corpus.validation)
    test = sum(sets[name] for name in data.corpus.test)
    heard = cfg.max_epochs * validation + validation + test
    together = ranks(cfg)  # they share every step's work, and are taken to cost no time of their own
    seconds = cfg.max_epochs * sets["train"] * train / together + heard * recognise
    gpus = together * int(next(task.model.parameters()).is_cuda)
    steps = -(-len(data.train_dataloader()) // together) * cfg.max_epochs
    return Cost(steps, seconds, gpus, _peak_memory(gpus), 2 * size)


def _time_training(cfg: Any, task: Any, data: Any) -> tuple[float, int]:
    """Seconds a second of audio, and bytes of a checkpoint, from real steps of Lightning's loop."""
    import pytorch_lightning as pl
    import torch

    from asr_ablations.data.loader import SpeechLoader
    from asr_ablations.training.assembly import device_count, trainer

    class Clock(pl.Callback):
        began, seconds, audio = 0.0, 0.0, 0.0

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            self.began = device_clock(pl_module.device)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            ended = device_clock(pl_module.device)
            if batch_idx:
                self.seconds += ended - self.began
                self.audio += float(batch.lengths.sum()) / 16000

    clock = Clock()
    batches = list(data.train_dataloader().batch_sampler)
    batches.sort(key=lambda batch: max(data.sets["train"].durations[i] for i in batch))
    chosen = [batches[round(i * (len(batches) - 1) / max(1, STEPS - 1))] for i in range(STEPS)]
    loader = SpeechLoader(data.sets["train"], [chosen[-1], *chosen], workers=0)
    limits = {"max_epochs": 1, "limit_val_batches": 0}
    fitter = trainer(cfg, device_count(cfg), [], [clock], **limits)
    fitter.fit(task, loader, val_dataloaders=[loader])
    checkpoint = io.BytesIO()
    torch.save(fitter._checkpoint_connector.dump_checkpoint(), checkpoint)
    return clock.seconds / clock.audio, checkpoint.tell()


def _time_recognition(task: Any, data: Any) -> float:
    """Seconds a second of audio, from the longest utterances of the first validation set."""
    import torch

    batch = next(iter(data.evaluation_dataloader(data.corpus.validation[0])))
    task.eval()
    for _ in range(2):  # the first warms up
        began = device_clock(task.device)
        with torch.inference_mode():
            task.decoder(*task(batch.to(task.device)))
        seconds = device_clock(task.device) - began
    return seconds / (float(batch.lengths.sum()) / 16000)


def _peak_memory(gpus: int) -> int:
    import torch

    if gpus:
        return int(torch.cuda.max_memory_reserved())
    return peak_memory()


def _print(arms: Sequence[Arm], costs: Sequence[Cost | None], slots: Slots) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 120
    table = Table(title="plan: nothing was trained", title_justify="left")
    for column in ("arm", "steps", "time", "GPU hours", "memory GiB", "disk MiB"):
        table.add_column(column, justify="left" if column == "arm" else "right", overflow="fold")
    for name, cost in zip(what_varies([arm.overrides for arm in arms]), costs, strict=True):
        table.add_row(name, *(_cells(cost) if cost else ["done", "", "", "", ""]))
    ahead = [cost for cost in costs if cost is not None]
    seconds = sum(cost.seconds for cost in ahead)
    side_by_side = max(1, min(slots.jobs, len(ahead)))
    console.print(table)
    console.print(
        f"to run: {len(ahead)} of {len(arms)}, {_clock(seconds)} in all, {_clock(seconds / side_by_side)} with "
        f"{side_by_side} at a time; {sum(c.gpus * c.seconds for c in ahead) / 3600:.2f} GPU hours; "
        f"{sum(c.disk for c in ahead) / 2**20:.0f} MiB of checkpoints",
        soft_wrap=True,
    )
    console.print(f"measured over {STEPS} steps an arm on this machine, one arm at a time", soft_wrap=True)


def _cells(cost: Cost) -> list[str]:
    gpu_hours, memory = f"{cost.seconds / 3600 * cost.gpus:.2f}", f"{cost.memory / 2**30:.2f}"
    return [str(cost.steps), _clock(cost.seconds), gpu_hours, memory, f"{cost.disk / 2**20:.0f}"]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
