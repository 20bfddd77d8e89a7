"""Run the largest training batch before the first step, to detect insufficient GPU memory at once."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import cast

import numpy as np
import pytorch_lightning as pl
import torch

from asr_ablations.data.batch import BatchSize, batch_size
from asr_ablations.data.datamodule import SpeechData, Unreadable, collate
from asr_ablations.training.ddp import is_distributed
from asr_ablations.training.task import CTCTask, task_of
from asr_verdicts.errors import UsageError

OPTIMIZER_COPIES = 2
"""Number of state values that Adam stores per weight. No optimizer in conf/optimizer stores more."""


class LargestBatch(pl.Callback):
    """Tries the largest batch on a GPU before the first step. In a random order, it might come only after an hour."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.strategy.root_device.type == "cuda":
            data = cast(SpeechData, trainer.datamodule)  # type: ignore[attr-defined]
            check_memory(task_of(pl_module), data, trainer.precision_plugin.forward_context)


def check_memory(task: CTCTask, data: SpeechData, precision: Callable[[], AbstractContextManager[object]]) -> None:
    """Raise UsageError if the largest training batch does not fit into memory. The message suggests a smaller size."""
    durations = data.sets["train"].durations
    indices = largest_batch(durations, batch_size(data.batch_count, data.batch_seconds, ranks=1))
    count = len(indices)
    while count and not _fits(task, data, indices[:count], precision):
        count = 0 if is_distributed() else count // 2  # all ranks must run the same number of passes
    if count == len(indices):
        return
    longest = float(durations[indices[0]])
    problem = f"its largest batch, {len(indices)} utterances of up to {longest:.1f} s, does not fit into the memory"
    key, value = ("size", data.batch_count) if data.batch_count is not None else ("seconds", data.batch_seconds)
    limit = count if key == "size" else round(count * longest, 1)
    remedy = f"batch.{key}={limit} fits" if count else "expected a smaller one, or precision=16"
    raise UsageError(f"batch.{key}={value}: {problem} of the GPU; {remedy}")


def largest_batch(durations: np.ndarray, size: BatchSize) -> np.ndarray:
    """Return the indices of the utterances in a rank's largest padded batch, longest utterance first."""
    order = np.argsort(-durations, kind="stable")
    batches = [order[first:][: size.count(float(durations[index]))] for first, index in enumerate(order)]
    return max(batches, key=lambda batch: len(batch) * durations[batch[0]], default=order)


def _fits(
    task: CTCTask, data: SpeechData, indices: np.ndarray, precision: Callable[[], AbstractContextManager[object]]
) -> bool:
    """Return whether a training pass and the optimizer state fit into memory. Model and random state stay unchanged."""
    batch = collate(data.sets["train"].__getitems__(indices.tolist()))
    if isinstance(batch, Unreadable):
        raise UsageError(batch)
    buffers = [(buffer, buffer.clone()) for buffer in task.model.buffers()]
    parameters = [weights for weights in task.model.parameters() if weights.requires_grad]
    devices = [task.device] if task.device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices):
            room = [torch.empty_like(weights) for weights in parameters for _ in range(OPTIMIZER_COPIES)]
            with precision():
                loss = task.scored(batch.to(task.device)).total
            torch.autograd.grad(loss, parameters, allow_unused=True)
            del room, loss
    except torch.OutOfMemoryError:
        return False
    finally:
        for buffer, value in buffers:
            buffer.copy_(value)
        torch.cuda.empty_cache()  # return large blocks to the GPU, because training may never need them
    return True
