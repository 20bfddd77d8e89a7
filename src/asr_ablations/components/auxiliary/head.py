"""What auxiliary losses share: their layer, their weight and the labels of a batch."""

from functools import partial

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from asr_ablations.data.batch import Batch
from asr_ablations.tools.checks import number
from asr_ablations.training.auxiliary import without_auxiliary
from asr_verdicts.errors import choices

PROBE = 2, 400
"""Utterances and feature frames of the pass that finds the layers."""


class Head(nn.Module):
    """Base of auxiliary losses on the output (B, T', D) of `layer`. Its `size` is D.

    Raises UsageError if no layer with a row for each output frame has this name, and for a weight of 0 or less.
    """

    name: str

    def __init__(self, model: nn.Module, features: int, *, layer: str, weight: float) -> None:
        super().__init__()
        sizes = layer_sizes(model, features)
        if layer not in sizes:
            raise choices("auxiliary.layer", layer, [name for name in sizes if name.count(".") < 2])
        self.layer, self.size = layer, sizes[layer]
        self.weight = number("auxiliary.weight", weight, above=0)


@torch.no_grad()
def layer_sizes(model: nn.Module, features: int) -> dict[str, int]:
    """Return the size D of each layer whose output is (B, T', D) with as many frames as the model's, by name."""
    shapes: dict[str, torch.Size] = {}

    def keep(name: str, _module: nn.Module, _inputs: object, output: object) -> None:
        if isinstance(output, torch.Tensor):
            shapes[name] = output.shape

    probed = without_auxiliary(model).eval()
    for name, part in probed.named_modules():
        part.register_forward_hook(partial(keep, name))
    batch, frames = PROBE
    logits, _ = probed(torch.zeros(batch, frames, features), torch.full((batch,), frames))
    names = [name for name, _ in probed.named_modules() if name in shapes]
    return {name: shapes[name][2] for name in names if len(shapes[name]) == 3 and shapes[name][:2] == logits.shape[:2]}


def padded_labels(batch: Batch) -> torch.Tensor:
    """Return the labels of each transcript (B, L), padded with 0, on their device."""
    return pad_sequence(batch.targets.split(batch.target_lengths.tolist()), batch_first=True)


def mean_per_label(nats: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Average losses (B,) in nats per label over utterances. An empty transcript counts as one label."""
    return (nats / batch.target_lengths.clamp(min=1).to(nats.device, non_blocking=True)).mean()
