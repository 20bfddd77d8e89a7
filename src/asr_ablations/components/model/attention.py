"""Self-attention with relative positions (Dai et al. 2019), as in Gulati et al. 2020, and sinusoidal encodings."""

import torch
from torch import nn

from asr_ablations.components.model.dropout import Dropout
from asr_ablations.tools.checks import MOST_WIDTH, whole
from asr_ablations.tools.masks import valid_frames
from asr_verdicts.errors import choices


class RelativeAttention(nn.Module):
    """Self-attention that maps x (B, T, D) and lengths (B,) to (B, T, D), and knows the distance between two frames.

    In each head, the score of query q_i and key k_j is ((q_i + u)·k_j + (q_i + v)·p_(i-j)) / √(D / heads), where u and
    v are learned biases, and p_(i-j) is a linear map of the sinusoidal encoding of the distance. Keys in padding get no
    weight. Raises UsageError unless `heads` divides `width`.
    """

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = check_heads(heads, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.position = nn.Linear(width, width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(width))  # u
        self.position_bias = nn.Parameter(torch.zeros(width))  # v
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        frames, width = x.shape[1:]
        distances = torch.arange(frames, -frames, -1, device=x.device)
        positions = self.position(encode(distances, width).to(x.dtype)[None])  # (1, 2T, D)
        query, scale = self.query(x), (width // self.heads) ** -0.5
        by_content = self._split((query + self.content_bias) * scale) @ self._split(self.key(x)).transpose(2, 3)
        by_position = self._split((query + self.position_bias) * scale) @ self._split(positions).transpose(2, 3)
        padding = ~valid_frames(lengths.clamp(min=1), frames, x.device)  # attention over no frames would be 0 / 0
        scores = (by_content + align(by_position)).masked_fill_(padding[:, None, None], -torch.inf)
        mixed = self.dropout(scores.softmax(dim=-1)) @ self._split(self.value(x))  # (B, heads, T, D / heads)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        """Split (B, T, D) into heads: (B, heads, T, D / heads)."""
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


def align(scores: torch.Tensor) -> torch.Tensor:
    """Turn scores (…, T, 2T) by query and distance, from T down to 1 - T, into (…, T, T) by query and key.

    The distance of query i and key j is in column T - i + j, which a row of 2T - 1 turns into column j. No score is
    copied.
    """
    frames = scores.shape[-2]
    return scores.flatten(-2)[..., frames:].unflatten(-1, (frames, 2 * frames - 1))[..., :frames]


def encode(positions: torch.Tensor, size: int) -> torch.Tensor:
    """Return sinusoidal encodings (T, size) of positions (T,), with sines in even and cosines in odd columns."""
    place = torch.arange(size, device=positions.device)
    rates = 10_000.0 ** (-(place // 2 * 2) / size)
    angles = positions[:, None] * rates
    return torch.where(place % 2 == 0, angles.sin(), angles.cos())


def check_heads(heads: int, width: int) -> int:
    """Return the number of attention heads. Raise UsageError unless it divides `width`."""
    if whole("model.heads", heads, 1, MOST_WIDTH) and width % heads:
        raise choices("model.heads", heads, f"a divisor of width={width}")
    return heads
