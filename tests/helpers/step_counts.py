"""Launches and memory traffic of a training step, counted on the meta device, where nothing is computed.

python -m tests.helpers.step_counts [overrides]     with src/ on the path; prints both, forwards and backwards

An operation is a launch, and reads and writes each of its tensors once; views are free. Recurrences, which cuDNN
computes, the loss and the optimizer are left out. Not counted: what a kernel reads twice, and caches.
"""

import sys
from collections import Counter
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from asr_ablations.components.model import directions
from asr_ablations.data.batch import Batch
from asr_ablations.training.assembly import assemble
from tests.helpers.support import compose, standing_corpus

META = torch.device("meta")
UTTERANCES, SECONDS = 64, 12.8
FREE = {"empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "detach", "lift_fresh"}
LAUNCHES = {"norm_moments": 2, "norm_gradient_sums": 2}
"""Kernels of operations of our own, where they are more than one."""


class Counts(TorchDispatchMode):
    """launches: by operation; bytes: read and written."""

    def __init__(self) -> None:
        super().__init__()
        self.launches: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def __torch_dispatch__(self, operation: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        result = operation(*arguments, **(options or {}))
        name = operation.overloadpacket.__name__
        tensors = [t for t in tree_flatten((arguments, options or {}, result))[0] if isinstance(t, torch.Tensor)]
        on_device = [t for t in tensors if t.device == META]
        is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in operation._schema.returns)
        if on_device and not is_view and name not in FREE:
            self.launches[name] += LAUNCHES.get(name, 1)
            self.bytes[name] += sum(min(t.nbytes, t.untyped_storage().nbytes()) for t in on_device)
        return result

    @property
    def gigabytes(self) -> float:
        return sum(self.bytes.values()) / 1e9


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, size: int) -> torch.Tensor:
        ctx.like = x
        return x.new_empty(*x.shape[:2], size)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return torch.empty_like(ctx.like), None


class Uncounted(nn.Module):
    """In the place of a recurrent layer: its shapes."""

    def __init__(self, cell: nn.RNNBase) -> None:
        super().__init__()
        self.cell, self.size = cell, cell.hidden_size

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return _Recurrence.apply(x, self.size)


def batch() -> Batch:
    """Utterances of one length, on the meta device but for their lengths."""
    samples, labels = round(16000 * SECONDS), 180
    return Batch(
        audio=torch.empty(UTTERANCES * samples, dtype=torch.int16, device=META),
        lengths=torch.full((UTTERANCES,), samples),
        targets=torch.empty(UTTERANCES * labels, dtype=torch.long, device=META),
        target_lengths=torch.full((UTTERANCES,), labels),
        ids=[f"u-{number}" for number in range(UTTERANCES)],
        texts=[""] * UTTERANCES,
    )


def count_step(*overrides: str) -> Counts:
    """Of the features, the model in both passes, and the log-probabilities."""
    usual = ("model=ds2", "features=spectrogram", "rnn=lstm", "gpus=0", "logger=csv", "alphabet.characters='ab '")
    task, _ = assemble(compose(*usual, *overrides), standing_corpus())
    for layer in task.model.modules():
        for name, part in layer.named_children():
            if isinstance(getattr(part, "cell", None), nn.RNNBase):
                setattr(layer, name, Uncounted(part.cell))
    task.loss = lambda log_probs, lengths, batch: log_probs.new_zeros(()) + _Loss.apply(log_probs)
    task.to(META).train()
    with (
        # torch knows no autocast on meta: 16 bits are counted with precision=16-master
        patch.object(torch, "autocast", lambda *_, **__: nullcontext()),
        patch.object(directions, "autocast_of_recurrences", lambda device: None),
        Counts() as counts,
    ):
        task.scored(batch()).loss.backward()
    return counts


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_probs: torch.Tensor) -> torch.Tensor:
        ctx.like = log_probs
        return log_probs.new_empty(())

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(ctx.like)


if __name__ == "__main__":
    counted = count_step(*sys.argv[1:])
    print(f"{sum(counted.launches.values())} launches, {counted.gigabytes:.1f} GB")
    for name, size in counted.bytes.most_common(12):
        print(f"{name:28} {counted.launches[name]:5} {size / 1e9:7.2f} GB")
