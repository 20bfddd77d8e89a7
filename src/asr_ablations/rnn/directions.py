"""One direction or two, with lengths respected, around any one-directional layer."""

from collections.abc import Callable

import torch
from torch import nn

from asr_ablations.masks import valid_frames
from asr_ablations.rnn.parallel import both

Layer = Callable[[int, int], nn.Module]


class Directions(nn.Module):
    """(x (B, T, D), lengths (B,)) → (B, T, H), rows past a length 0; both directions are summed (papers/003 §2.4).

    The backward layer reads each utterance reversed within its own length: exact for every valid frame, and without
    the packing that costs three times the layer itself on a CPU.
    """

    def __init__(self, layer: Layer, input_size: int, hidden_size: int, *, bidirectional: bool) -> None:
        super().__init__()
        self.forwards = layer(input_size, hidden_size)
        self.backwards = layer(input_size, hidden_size) if bidirectional else None

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        # Autocast runs cuDNN recurrences in float16 even under bfloat16, and on a CPU 16-bit recurrences are slower
        # than float32 ones: only float16 on CUDA, whose loss is scaled, keeps autocast here.
        device = x.device.type
        cast = torch.is_autocast_enabled(device)
        keep = device == "cuda" and torch.get_autocast_dtype(device) == torch.float16
        with torch.autocast(device, enabled=keep and cast):
            return self._both(x.float() if cast and not keep else x, lengths)

    def _both(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        valid = valid_frames(lengths, x.shape[1], x.device)[..., None]
        if self.backwards is None:
            return self.forwards(x, lengths) * valid
        flip = reversal(lengths, x.shape[1], x.device)[..., None]
        y, reversed_y = both(self.forwards, self.backwards, x, x.gather(1, flip.expand_as(x)), lengths)
        return (y + reversed_y.gather(1, flip.expand_as(reversed_y))) * valid


def reversal(lengths: torch.Tensor, frames: int, device: torch.device) -> torch.Tensor:
    """Index (B, T) that reverses each utterance within its length and leaves the padding where it is."""
    position = torch.arange(frames, device=device)[None]
    last = lengths.to(device, non_blocking=True)[:, None] - 1
    return torch.where(position <= last, last - position, position)
