"""One direction or two, with lengths respected, around any one-directional layer."""

from collections.abc import Callable

import torch
from torch import nn

from asr_ablations.components.model.parallel import both
from asr_ablations.tools.errors import choices
from asr_ablations.tools.masks import valid_frames

Layer = Callable[[int, int], nn.Module]
KINDS = ("forward", "sum", "concat")


class Directions(nn.Module):
    """(x (B, T, D), lengths (B,)) → (B, T, size), rows past a length 0.

    directions: forward alone; or both, as their sum (papers/003 §2.4) or one beside the other, twice as wide.
    The backward layer reads each utterance reversed within its own length: exact for every valid frame, and without
    the packing that costs three times the layer itself on a CPU.
    """

    def __init__(self, layer: Layer, input_size: int, hidden_size: int, *, directions: str) -> None:
        super().__init__()
        if directions not in KINDS:
            raise choices("directions", directions, KINDS)
        self.concatenate = directions == "concat"
        self.size = 2 * hidden_size if self.concatenate else hidden_size
        self.forwards = layer(input_size, hidden_size)
        self.backwards = None if directions == "forward" else layer(input_size, hidden_size)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        device = x.device.type
        mixed = keeps_autocast(device)
        with torch.autocast(device, enabled=mixed):
            return self._both(x if mixed else x.to(next(self.parameters()).dtype), lengths)

    def _both(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        valid = valid_frames(lengths, x.shape[1], x.device)[..., None]
        if self.backwards is None:
            return self.forwards(x, lengths) * valid
        flip = reversal(lengths, x.shape[1], x.device)[..., None]
        y, reversed_y = both(self.forwards, self.backwards, x, x.gather(1, flip.expand_as(x)), lengths)
        z = reversed_y.gather(1, flip.expand_as(reversed_y))
        return (torch.cat([y, z], dim=-1) if self.concatenate else y + z) * valid


def keeps_autocast(device: str) -> bool:
    """Whether a recurrence stays under the autocast that is on now, instead of running in its weights' own dtype.

    Autocast runs cuDNN's recurrences in float16 even under bfloat16, whose loss nobody scales, and on a CPU 16-bit
    recurrences are slower than float32 ones: only float16 on CUDA, whose loss is scaled, is left as it is.
    """
    on = torch.is_autocast_enabled(device)
    return on and device == "cuda" and torch.get_autocast_dtype(device) == torch.float16


def reversal(lengths: torch.Tensor, frames: int, device: torch.device) -> torch.Tensor:
    """Index (B, T) that reverses each utterance within its length and leaves the padding where it is."""
    position = torch.arange(frames, device=device)[None]
    last = lengths.to(device, non_blocking=True)[:, None] - 1
    return torch.where(position <= last, last - position, position)
