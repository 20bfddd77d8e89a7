"""Row convolution: some future for a network that reads forwards (Amodei et al. 2016, §3.7)."""

import torch
from torch import nn
from torch.nn.functional import pad

from asr_ablations.tools.errors import choices
from asr_ablations.tools.masks import valid_frames


class Lookahead(nn.Module):
    """(x (B, T, D), lengths (B,)) → (B, T, D): r_t = Σ w_j ∘ x_(t+j), j from 0 to `frames`; each unit has own weights.

    What lies past an utterance's length counts as 0.
    """

    def __init__(self, size: int, frames: int) -> None:
        super().__init__()
        if isinstance(frames, bool) or not isinstance(frames, int) or frames < 1:
            raise choices("lookahead", frames, "a whole number of frames, 0 for none")
        self.frames = frames
        self.convolve = nn.Conv1d(size, size, frames + 1, groups=size, bias=False)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        valid = valid_frames(lengths, x.shape[1], x.device)[..., None]
        ahead = pad((x * valid).transpose(1, 2), (0, self.frames))  # (B, D, T + frames)
        return self.convolve(ahead).transpose(1, 2) * valid
