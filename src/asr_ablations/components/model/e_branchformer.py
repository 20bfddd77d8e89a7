"""E-Branchformer (Kim et al. 2023): attention and a convolutional gating MLP side by side, merged by a convolution."""

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import nn

from asr_ablations.components.model.attention import RelativeAttention
from asr_ablations.components.model.convolution import InputLayerFactory
from asr_ablations.components.model.dropout import Dropout
from asr_ablations.components.model.encoder import Encoder, check_kernel
from asr_ablations.tools.checks import MOST_WIDTH, whole
from asr_ablations.tools.masks import valid_frames
from asr_ablations.training.contracts import NormFactory, RecurrentFactory
from asr_verdicts.errors import choices


class DepthwiseConvolution(nn.Conv1d):
    """A convolution over time of each channel alone, which maps x (B, T, D) and lengths (B,) to (B, T, D).

    Padding counts as 0.
    """

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__(channels, channels, kernel, padding=kernel // 2, groups=channels)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        valid = valid_frames(lengths, x.shape[1], x.device)[..., None]
        return super().forward((x * valid).transpose(1, 2)).transpose(1, 2)


class GatingMLP(nn.Module):
    """A convolutional gating MLP that maps x (B, T, D) and lengths (B,) to (B, T, D) (Sakuma et al. 2022).

    Half of the units are multiplied by a depthwise convolution of the other, normalised half. With init=default, this
    gate begins near 1. Raises UsageError unless `units` is even.
    """

    def __init__(self, width: int, units: int, kernel: int, dropout: float) -> None:
        super().__init__()
        if whole("model.gating", units, 2, MOST_WIDTH) % 2:
            raise choices("model.gating", units, "an even number of units")
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, units)
        self.gate_norm = nn.LayerNorm(units // 2)
        self.convolve = DepthwiseConvolution(units // 2, check_kernel("model.kernel", kernel))
        nn.init.normal_(self.convolve.weight, std=1e-6)
        nn.init.ones_(self.convolve.bias)  # type: ignore[arg-type]
        self.dropout = Dropout(dropout)
        self.narrow = nn.Linear(units // 2, width)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x, gate = nn.functional.gelu(self.widen(self.norm(x))).chunk(2, dim=-1)
        return self.narrow(self.dropout(x * self.convolve(self.gate_norm(gate), lengths)))


class Layer(nn.Module):
    """An E-Branchformer layer: half-step feed-forward, two merged branches, and a second half-step feed-forward.

    The layer maps x (B, T, D) and lengths (B,) to (B, T, D). The merge projects the outputs of attention and gating
    MLP, to which their depthwise convolution is added.
    """

    def __init__(
        self,
        width: int,
        *,
        feed_forward: int,
        heads: int,
        gating: int,
        kernel: int,
        merge_kernel: int,
        dropout: float,
    ) -> None:
        super().__init__()
        whole("model.feed_forward", feed_forward, 1, MOST_WIDTH)
        self.feed_forward, self.feed_forward_2 = (_feed_forward(width, feed_forward, dropout) for _ in range(2))
        self.attention_norm = nn.LayerNorm(width)
        self.attention = RelativeAttention(width, heads, dropout)
        self.gating = GatingMLP(width, gating, kernel, dropout)
        self.merge = DepthwiseConvolution(2 * width, check_kernel("model.merge_kernel", merge_kernel))
        self.project = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x = x + 0.5 * self.feed_forward(x)
        x = x + self._mix(x, lengths)
        return self.norm(x + 0.5 * self.feed_forward_2(x))

    def _mix(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        far = self.dropout(self.attention(self.attention_norm(x), lengths))
        near = self.dropout(self.gating(x, lengths))
        both = torch.cat([far, near], dim=2)  # (B, T, 2D)
        return self.dropout(self.project(both + self.merge(both, lengths)))


def _feed_forward(width: int, units: int, dropout: float) -> nn.Sequential:
    steps = nn.Linear(width, units), nn.SiLU(), Dropout(dropout), nn.Linear(units, width), Dropout(dropout)
    return nn.Sequential(nn.LayerNorm(width), *steps)


class EBranchformer(Encoder):
    """An E-Branchformer model that maps features (B, T, F) and lengths (B,) to logits (B, T', V) and their lengths.

    - convolution, convolutions: the same as in DeepSpeech2; a linear layer projects their output to `width` units
    - heads, feed_forward, gating: numbers of attention heads, feed-forward units and units of the gating MLP
    - kernel, merge_kernel: kernel frames of the gating MLP and of the merge
    - norm: builds the normalisation of the input convolutions; every layer uses layer norm
    - rnn: unused, because the model has no recurrent layers

    Raises UsageError for values out of range.
    """

    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        convolution: InputLayerFactory,
        convolutions: Sequence[Mapping[str, object]],
        rnn: RecurrentFactory,
        norm: NormFactory,
        width: int,
        layers: int,
        heads: int,
        feed_forward: int,
        gating: int,
        kernel: int,
        merge_kernel: int,
        dropout: float,
    ) -> None:
        sizes = {"feed_forward": feed_forward, "heads": heads, "gating": gating}
        layer = partial(Layer, width, **sizes, kernel=kernel, merge_kernel=merge_kernel, dropout=dropout)
        super().__init__(
            features,
            outputs,
            convolution=convolution,
            convolutions=convolutions,
            norm=norm,
            width=width,
            layers=layers,
            layer=layer,
            dropout=dropout,
        )
