"""One direction or two, built from any recurrent layer for one direction."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from asr_ablations.components.model.parallel import both
from asr_ablations.components.rnn import RecurrentFactory
from asr_ablations.tools.errors import choices
from asr_ablations.tools.masks import valid_frames
from asr_ablations.training.master_weights import copies_in

KINDS = ("forward", "sum", "concat")


class Directions(nn.Module):
    """(x (B, T, D), lengths (B,)) → (B, T, size), rows past a length 0.

    directions: forward alone, the sum of both (Ambroszczyk2019 §2.4), or both concatenated, twice as wide. The backward
    layer reads each utterance reversed within its own length. That is exact for every valid frame, and avoids packing,
    which on a CPU costs three times the layer itself. Raises UsageError for another value of directions.
    """

    def __init__(self, layer: RecurrentFactory, input_size: int, hidden_size: int, *, directions: str) -> None:
        super().__init__()
        if directions not in KINDS:
            raise choices("model.directions", directions, KINDS)
        self.concatenate = directions == "concat"
        self.size = 2 * hidden_size if self.concatenate else hidden_size
        self.forwards = layer(input_size, hidden_size)
        self.backwards = None if directions == "forward" else layer(input_size, hidden_size)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        device = x.device.type
        mixed = autocast_of_recurrences(device)
        if mixed == torch.float16:
            return self._both(x, lengths)
        with torch.autocast(device, enabled=False), copies_in(mixed, self) if mixed else nullcontext():
            return self._both(x.to(next(self.parameters()).dtype), lengths)

    def _both(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        valid = valid_frames(lengths, x.shape[1], x.device)[..., None]
        if self.backwards is None:
            return self.forwards(x, lengths) * valid
        flip = reversal(lengths, x.shape[1], x.device)
        y, reversed_y = both(self.forwards, self.backwards, x, flipped(x, flip), lengths)
        z = flipped(reversed_y, flip)
        return (torch.cat([y, z], dim=-1) if self.concatenate else y + z) * valid


def autocast_of_recurrences(device: str) -> torch.dtype | None:
    """The type in which a recurrence runs under the current autocast; None for that of its weights.

    On a CPU it is None: 16-bit recurrences are slower there. On CUDA float16 is left to autocast, which would run cuDNN
    in float16 under bfloat16, too, where the loss is not scaled.
    """
    on = torch.is_autocast_enabled(device) and device == "cuda"
    return torch.get_autocast_dtype(device) if on else None


def flipped(x: torch.Tensor, flip: torch.Tensor) -> torch.Tensor:
    """x (B, T, D) with the frames of each utterance in the order of flip (B, T), which is its own inverse."""
    if x.requires_grad and torch.is_grad_enabled():  # an exported model has no such function
        return Flip.apply(x, flip)
    return _taken(x, flip)


def _taken(x: torch.Tensor, flip: torch.Tensor) -> torch.Tensor:
    """As `flipped`, without a gradient of its own. A CPU gathers number by number; whole rows are copied in an
    eighth of the time, and stay frame by frame in memory where a recurrence has left them so.
    """
    if x.device.type != "cpu":
        return x.gather(1, flip[..., None].expand_as(x))
    (B, T, _), by_frame = x.shape, x.transpose(0, 1)
    utterances = torch.arange(B, device=x.device)[:, None]
    if x.is_contiguous() or not by_frame.is_contiguous():
        return x.flatten(0, 1).index_select(0, (utterances * T + flip).flatten()).view_as(x)
    rows = (flip * B + utterances).T.flatten()
    return by_frame.flatten(0, 1).index_select(0, rows).view_as(by_frame).transpose(0, 1)


class Flip(torch.autograd.Function):
    """Gathers in both passes: the gradient of torch's own gather would be added up in zeros, on a GPU by atomics."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, flip: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(flip)
        return _taken(x, flip)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        (flip,) = ctx.saved_tensors
        return _taken(gradient, flip), None


def reversal(lengths: torch.Tensor, frames: int, device: torch.device) -> torch.Tensor:
    """Indices (B, T) that reverse each utterance within its length and keep the padding in place."""
    position = torch.arange(frames, device=device)[None]
    last = lengths.to(device, non_blocking=True)[:, None] - 1
    return torch.where(position <= last, last - position, position)
