"""Conformer (Gulati et al. 2020): self-attention and convolution over time, after DeepSpeech2's input convolutions."""

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import nn
from torchaudio.models.conformer import ConformerLayer

from asr_ablations.components.model.attention import RelativeAttention, check_heads
from asr_ablations.components.model.convolution import InputLayerFactory
from asr_ablations.components.model.dropout import Dropout
from asr_ablations.components.model.encoder import Encoder, check_kernel
from asr_ablations.tools.checks import MOST_WIDTH, whole
from asr_ablations.tools.masks import valid_frames
from asr_ablations.training.contracts import NormFactory, RecurrentFactory
from asr_verdicts.errors import choices

POSITIONS = ("none", "relative")


class Layer(nn.Module):
    """A Conformer layer: half-step feed-forward, self-attention, convolution, and a second half-step feed-forward.

    The layer maps x (B, T, D) and lengths (B,) to (B, T, D). Its submodules are those of torchaudio's ConformerLayer,
    with `norm` instead of batch norm, and RelativeAttention if `positions` is relative. ConformerLayer.forward is not
    called, because it would include padding frames in the convolution and in the statistics of `norm`.
    """

    def __init__(
        self,
        width: int,
        *,
        feed_forward: int,
        heads: int,
        kernel: int,
        positions: str,
        norm: NormFactory,
        dropout: float,
    ) -> None:
        super().__init__()
        whole("model.feed_forward", feed_forward, 1, MOST_WIDTH)
        check_heads(heads, width)
        check_kernel("model.kernel", kernel)
        if positions not in POSITIONS:
            raise choices("model.positions", positions, POSITIONS)
        self.parts = ConformerLayer(width, feed_forward, heads, kernel, dropout)
        if positions == "relative":
            self.parts.self_attn = RelativeAttention(width, heads, dropout)
        self.parts.conv_module.sequential[3] = norm([width])
        for module in list(self.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.Dropout):  # our Dropout generates masks faster on a CPU
                    setattr(module, name, Dropout(dropout))

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        parts = self.parts
        x = x + 0.5 * parts.ffn1(x)
        x = x + parts.self_attn_dropout(self._attend(parts.self_attn_layer_norm(x), lengths))
        x = x + self._convolve(x, lengths)
        return parts.final_layer_norm(x + 0.5 * parts.ffn2(x))

    def _attend(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        frames, attention = x.shape[1], self.parts.self_attn
        if isinstance(attention, RelativeAttention):
            return attention(x, lengths)
        padding = ~valid_frames(lengths.clamp(min=1), frames, x.device)  # attention over no frames would be 0 / 0
        x = x.transpose(0, 1)  # (T, B, D)
        if not torch.compiler.is_exporting():
            return attention(x, x, x, key_padding_mask=padding, need_weights=False)[0].transpose(0, 1)
        # in ONNX, attention accepts only a mask over pairs of frames
        pairs = padding[:, None].expand(-1, frames, -1).repeat_interleave(attention.num_heads, 0)  # (B·heads, T, T)
        return attention(x, x, x, attn_mask=pairs, need_weights=False)[0].transpose(0, 1)

    def _convolve(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        module = self.parts.conv_module
        widen, gate, convolve, norm, *rest = module.sequential
        x = gate(widen(module.layer_norm(x).transpose(1, 2)))  # (B, D, T)
        x = convolve(x * valid_frames(lengths, x.shape[2], x.device)[:, None])
        x = norm(x.transpose(1, 2), lengths).transpose(1, 2)
        for step in rest:
            x = step(x)
        return x.transpose(1, 2)


class Conformer(Encoder):
    """A Conformer model that maps features (B, T, F) and lengths (B,) to logits (B, T', V) and their lengths (B,).

    - convolution, convolutions: the same as in DeepSpeech2; a linear layer projects their output to `width` units
    - heads, feed_forward, kernel: numbers of attention heads, feed-forward units and kernel frames in each layer
    - norm: builds the normalisation of all convolutions; every other part of the model uses layer norm
    - positions: what attention knows of the order: the distance of two frames (relative), or nothing (none), which
      leaves the order to the convolutions
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
        kernel: int,
        positions: str,
        dropout: float,
    ) -> None:
        sizes = {"feed_forward": feed_forward, "heads": heads, "kernel": kernel}
        layer = partial(Layer, width, **sizes, positions=positions, norm=norm, dropout=dropout)
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
