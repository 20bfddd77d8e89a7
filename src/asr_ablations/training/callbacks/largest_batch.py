"""Try a training set's largest batch before the first step, so that too little memory shows at once."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import cast

import numpy as np
import pytorch_lightning as pl
import torch

from asr_ablations.data.batch import Batch, BatchSize, batch_size
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.data.dataset import Unreadable, collate
from asr_ablations.training.ddp import is_distributed
from asr_ablations.training.task import CTCTask, task_of
from asr_verdicts.errors import UsageError

OPTIMIZER_COPIES = 2
"""Tensors that Adam keeps for each weight; other optimizers need fewer."""

Precision = Callable[[], AbstractContextManager[object]]
"""A context for the forward pass."""


class LargestBatch(pl.Callback):
    """Tries the largest batch on a GPU before the first step. In random order it might fail only after an hour."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Raise UsageError if memory is too small; the message names a batch that fits."""
        if trainer.strategy.root_device.type == "cuda":
            data = cast(SpeechData, trainer.datamodule)  # type: ignore[attr-defined]
            check_memory(task_of(pl_module), data, trainer.precision_plugin.forward_context)


def check_memory(task: CTCTask, data: SpeechData, precision: Precision) -> None:
    """Raise UsageError if the largest batch of an epoch does not fit into memory; the message names one that does."""
    durations = data.sets["train"].durations
    indices = largest_batch(durations, batch_size(data.batch_count, data.batch_seconds, ranks=1))
    if not len(indices) or _fits(task, data, indices, precision):
        return
    longest = float(durations[indices[0]])
    problem = f"its largest batch, {len(indices)} utterances of up to {longest:.1f} s, does not fit into the memory"
    key, value = ("size", data.batch_count) if data.batch_count is not None else ("seconds", data.batch_seconds)
    fitting = 0 if is_distributed() else _largest_that_fits(task, data, indices, precision)  # ranks need equal passes
    limit = fitting if key == "size" else round(fitting * longest, 1)
    remedy = f"batch.{key}={limit} fits" if fitting else "expected a smaller one, or precision=16"
    raise UsageError(f"batch.{key}={value}: {problem} of the GPU; {remedy}")


def largest_batch(durations: np.ndarray, size: BatchSize) -> np.ndarray:
    """Return the indices of the utterances of a rank's largest padded batch, longest first."""
    order = np.argsort(-durations, kind="stable")
    if not len(order):
        return order
    counts = np.array([size.count(float(durations[index])) for index in order])
    counts = np.minimum(counts, len(order) - np.arange(len(order)))
    first = int(np.argmax(counts * durations[order]))
    return order[first : first + counts[first]]


def _largest_that_fits(task: CTCTask, data: SpeechData, indices: np.ndarray, precision: Precision) -> int:
    """Halve the number of utterances until they fit; return 0 if not even one fits."""
    count = len(indices) // 2
    while count and not _fits(task, data, indices[:count], precision):
        count //= 2
    return count


def _fits(task: CTCTask, data: SpeechData, indices: np.ndarray, precision: Precision) -> bool:
    batch = collate(data.sets["train"].__getitems__(indices.tolist()))
    if isinstance(batch, Unreadable):
        raise UsageError(batch)
    try:
        try_batch(task, batch, precision)
    except torch.OutOfMemoryError:
        return False
    finally:
        if task.device.type == "cuda":
            torch.cuda.empty_cache()  # blocks of this size may never be needed again
    return True


def try_batch(task: CTCTask, batch: Batch, precision: Precision) -> None:
    """Run forward and backward, with room for an optimizer's state. Weights, statistics and random state are kept."""
    buffers = list(task.model.buffers())
    before = [buffer.clone() for buffer in buffers]
    parameters = [weights for weights in task.model.parameters() if weights.requires_grad]
    try:
        with torch.random.fork_rng([task.device] if task.device.type == "cuda" else []):
            room = [torch.empty_like(weights) for weights in parameters for _ in range(OPTIMIZER_COPIES)]
            with precision():
                loss = task.scored(batch.to(task.device)).loss
            torch.autograd.grad(loss, parameters, allow_unused=True)
            del room
    finally:
        for buffer, value in zip(buffers, before, strict=True):
            buffer.copy_(value)
