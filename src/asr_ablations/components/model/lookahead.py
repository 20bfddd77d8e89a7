"""Row convolution: a few future frames for a network that reads forwards (Amodei et al. 2016, §3.7)."""

import torch
from torch import nn
from torch.nn.functional import pad

from asr_ablations.tools.checks import is_whole
from asr_ablations.tools.errors import choices
from asr_ablations.tools.masks import valid_frames


class Lookahead(nn.Module):
    """(x (B, T, D), lengths (B,)) → (B, T, D): r_t = Σ w_j ∘ x_(t+j), j from 0 to `frames`.

    Each unit has its own weights. Frames past a length count as 0. Raises UsageError for fewer than 1 frame.
    """

    def __init__(self, size: int, frames: int) -> None:
        super().__init__()
        if not is_whole(frames, 1):
            raise choices("model.lookahead", frames, "a whole number of frames, 0 for none")
        self.frames = frames
        self.convolve = nn.Conv1d(size, size, frames + 1, groups=size, bias=False)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        valid = valid_frames(lengths, x.shape[1], x.device)[..., None]
        ahead = pad((x * valid).transpose(1, 2), (0, self.frames))  # (B, D, T + frames)
        return self.convolve(ahead).transpose(1, 2) * valid
