"""Base class and helper functions for auxiliary losses."""

from functools import partial

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from asr_ablations.data.batch import Batch
from asr_ablations.tools.checks import number
from asr_ablations.training.auxiliary import without_auxiliary
from asr_verdicts.errors import choices

PROBE = 2, 400
"""Number of utterances and number of feature frames in the forward pass that measures layers' output sizes."""


class Head(nn.Module):
    """Base class of auxiliary losses on the output (B, T', D) of the model's layer `layer`, where D is `size`.

    Raises UsageError if the model has no layer of this name, if the layer's output does not have one row per output
    frame of the model, or if `weight` is not above 0.
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
    """Return output sizes D by layer name, for outputs (B, T', D) with as many frames as the model's output."""
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
    """Return the labels (B, L) of a batch, padded with 0, on the device of its targets."""
    return pad_sequence(batch.targets.split(batch.target_lengths.tolist()), batch_first=True)


def mean_per_label(nats: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Divide losses (B,) in nats by label counts, and average over utterances. Empty transcripts count as one label."""
    return (nats / batch.target_lengths.clamp(min=1).to(nats.device, non_blocking=True)).mean()
