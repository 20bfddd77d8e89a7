"""wav2vec 2.0 (Baevski et al. 2020), HuBERT (Hsu et al. 2021) and WavLM (Chen et al. 2022), of torchaudio's layers."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import nn
from torch.nn.functional import gelu
from torchaudio.models import Wav2Vec2Model, wav2vec2_model, wavlm_model

from asr_ablations.components.augment.specaugment import SpecAugment
from asr_ablations.components.model.dropout import Dropout
from asr_ablations.tools.checks import MOST_LAYERS, MOST_WIDTH, is_whole, number, switch, whole
from asr_ablations.tools.masks import valid_frames
from asr_ablations.training.contracts import NormFactory, RecurrentFactory
from asr_verdicts.errors import UsageError, choices

NORMS = ("group", "layer")


class Masks(SpecAugment):
    """Masks frames and channels inside the model; masked values become 0."""

    key = "model.masks"


class ChannelNorm(nn.GroupNorm):
    """Group norm with one channel per group over x (B, C, T). With lengths (B,), statistics are of valid frames."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
        if lengths is None:  # in torchaudio's own forward pass
            return super().forward(x)
        valid = valid_frames(lengths, x.shape[2], x.device)[:, None]
        count = lengths.to(x.device, non_blocking=True).clamp(min=1)[:, None, None]
        mean = (x.float() * valid).sum(dim=2, keepdim=True) / count
        centred = (x.float() - mean) * valid
        scale = (centred.square().sum(dim=2, keepdim=True) / count + self.eps).rsqrt()
        return (centred * scale * self.weight[:, None] + self.bias[:, None]).to(x.dtype)


class Wav2Vec2(nn.Module):
    """Maps normalised samples (B, S, 1) and lengths (B,) to logits (B, T', V) and lengths (B,) in output frames.

    Convolutions turn samples into frames, and Transformer layers follow. `encoder` is torchaudio's Wav2Vec2Model, so it
    accepts published weights. Its own forward pass is not called, because group norm would include padding, and
    torchaudio's WavLM accepts no lengths.

    - convolutions: channels, kernel and stride of each convolution
    - extractor_norm: "group" normalises each channel of the first convolution over the utterance, "layer" each frame of
      all convolutions
    - convolution_bias: whether the convolutions have a bias
    - position_kernel, position_groups: kernel and groups of the convolution that encodes positions
    - relative_positions: WavLM's `buckets` and `max_distance` of relative positions, or None
    - norm_first: whether layer norm precedes attention and feed-forward modules instead of following them
    - dropout: rate within and after all modules of a layer, and after the projection of the frames
    - layer_drop: probability with which training skips a layer
    - masks: values of SpecAugment, applied to the projected frames in training

    Raises UsageError for values out of range.
    """

    unread = ("rnn", "norm")
    """Config groups that do not affect this model. A run that selects an option of such a group is refused."""

    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        rnn: RecurrentFactory,
        norm: NormFactory,
        convolutions: Sequence[Sequence[int]],
        extractor_norm: str,
        convolution_bias: bool,
        width: int,
        layers: int,
        heads: int,
        feed_forward: int,
        position_kernel: int,
        position_groups: int,
        relative_positions: Mapping[str, int] | None,
        norm_first: bool,
        dropout: float,
        layer_drop: float,
        masks: Mapping[str, Any],
    ) -> None:
        super().__init__()
        if features != 1:
            raise UsageError(f"features: this model reads samples, not frames of {features} values: features=waveform")
        options = {
            "extractor_mode": f"{extractor_norm}_norm",
            "extractor_conv_layer_config": _check_convolutions(convolutions),
            "extractor_conv_bias": switch("model.convolution_bias", convolution_bias),
            "encoder_embed_dim": whole("width", width, 1, MOST_WIDTH),
            "encoder_projection_dropout": dropout,
            "encoder_pos_conv_kernel": whole("model.position_kernel", position_kernel, 1, MOST_WIDTH),
            "encoder_pos_conv_groups": whole("model.position_groups", position_groups, 1, MOST_WIDTH),
            "encoder_num_layers": whole("layers", layers, 1, MOST_LAYERS),
            "encoder_num_heads": whole("model.heads", heads, 1, MOST_WIDTH),
            "encoder_attention_dropout": dropout,
            "encoder_ff_interm_features": whole("model.feed_forward", feed_forward, 1, MOST_WIDTH),
            "encoder_ff_interm_dropout": dropout,
            "encoder_dropout": dropout,
            "encoder_layer_norm_first": switch("model.norm_first", norm_first),
            "encoder_layer_drop": number("model.layer_drop", layer_drop, least=0, below=1),
        }
        if extractor_norm not in NORMS:
            raise choices("model.extractor_norm", extractor_norm, NORMS)
        for name, count in (("heads", heads), ("position_groups", position_groups)):
            if width % count:
                raise choices(f"model.{name}", count, f"a divisor of width={width}")
        self.settings = {
            "width": width, "layers": layers, "model.heads": heads, "model.feed_forward": feed_forward,
            "model.convolutions": [list(sizes) for sizes in convolutions], "model.extractor_norm": extractor_norm,
            "model.convolution_bias": convolution_bias, "model.position_kernel": position_kernel,
            "model.position_groups": position_groups, "model.norm_first": norm_first,
            "model.relative_positions": relative_positions,
        }  # fmt: skip
        """Config keys that pretrained weights determine, with their values."""
        self.relative = relative_positions is not None
        if relative_positions is None:
            self.encoder: Wav2Vec2Model = wav2vec2_model(**options, aux_num_out=None)
        else:
            buckets, distance = _check_positions(relative_positions)
            relative = {"encoder_num_buckets": buckets, "encoder_max_distance": distance}
            self.encoder = wavlm_model(**options, **relative, aux_num_out=None)
        for module in list(self.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.Dropout):  # our Dropout generates masks faster on a CPU
                    setattr(module, name, Dropout(dropout))
                elif isinstance(child, nn.GroupNorm):
                    setattr(module, name, ChannelNorm(child.num_groups, child.num_channels))
        self.layer_drop = layer_drop
        self.layers = nn.ModuleList(nn.Identity() for _ in range(layers))
        """Each layer's output (B, T', D) as the output of a module, which auxiliary losses can name."""
        self.masks = Masks(**masks)
        self.masks_frames = bool(self.masks.time_masks or self.masks.frequency_masks)
        if self.masks_frames:
            whole("model.masks.frequency_width", self.masks.frequency_width, 0, width)
        self._next: tuple[Sequence[str], Sequence[int], int] | None = None
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, outputs)
        self.shortest = 1
        for _, kernel, stride in reversed(convolutions):
            self.shortest = (self.shortest - 1) * stride + kernel

    def mask_next_pass(self, ids: Sequence[str], seeds: Sequence[int], epoch: int) -> None:
        self._next = (ids, seeds, epoch) if self.masks_frames else None

    def output_lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        """Convert numbers of samples (B,) to numbers of output frames (B,)."""
        for layer in self.encoder.feature_extractor.conv_layers:
            lengths = _convolved_lengths(layer, lengths)
        return lengths

    def forward(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if features.shape[1] < self.shortest:  # torch cannot convolve an input shorter than the kernel
            return features.new_zeros(len(features), 0, self.output.out_features), self.output_lengths(lengths)
        x, lengths = self._extract(features.transpose(1, 2), lengths)
        x = self._mask(self.encoder.encoder.feature_projection(x), lengths)
        return self.output(self.dropout(self._transform(x, lengths))), lengths

    def _extract(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map samples (B, 1, S) and lengths (B,) to frames (B, T', C) and lengths (B,) in frames."""
        for layer in self.encoder.feature_extractor.conv_layers:
            x, lengths = layer.conv(x), _convolved_lengths(layer, lengths)
            if isinstance(layer.layer_norm, ChannelNorm):
                x = layer.layer_norm(x, lengths)
            elif layer.layer_norm is not None:
                x = layer.layer_norm(x)
            x = gelu(x)
        return x.transpose(1, 2), lengths

    def _mask(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Set padding to 0 and, in a pass announced by mask_next_pass, random frames and channels of x (B, T', D)."""
        if self._next is not None:
            (ids, seeds, epoch), self._next = self._next, None
            views = zip(x.chunk(len(seeds)), lengths.chunk(len(seeds)), seeds, strict=True)
            x = torch.cat([self.masks(view, count, list(ids), seed, epoch) for view, count, seed in views])
        return x * valid_frames(lengths, x.shape[1], x.device)[..., None]

    def _transform(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Map projected frames (B, T', D), which are 0 in padding, to the outputs (B, T', D) of the last layer."""
        transformer = self.encoder.encoder.transformer
        x = x + transformer.pos_conv_embed(x)
        if transformer.layer_norm_first:
            x = transformer.layer_norm(x)
        x = transformer.dropout(x)
        frames = x.shape[1]
        valid = valid_frames(lengths.clamp(min=1), frames, x.device)  # attention over no frames would be 0 / 0
        if self.relative:
            bias = transformer.layers[0].attention.compute_bias(frames, frames)
            padding = bias.new_zeros(valid.shape).masked_fill(~valid, -torch.inf)
            given = {"key_padding_mask": padding, "position_bias": bias.expand(len(x), -1, -1, -1)}
        else:
            given = {"attention_mask": valid[:, None, None].expand(-1, 1, frames, -1)}
        for layer, output in zip(transformer.layers, self.layers, strict=True):
            if self.training and self.layer_drop and float(torch.rand(())) < self.layer_drop:
                # gradients of 0, because ranks must agree on the parameters that have gradients
                x = x + 0 * torch.stack([weight.sum() for weight in layer.parameters()]).sum()
            else:
                x, _ = layer(x, **given)
            x = output(x)
        return x if transformer.layer_norm_first else transformer.layer_norm(x)


def _convolved_lengths(layer: Any, lengths: torch.Tensor) -> torch.Tensor:
    return ((lengths - layer.kernel_size).div(layer.stride, rounding_mode="floor") + 1).clamp(min=0)


def _check_convolutions(convolutions: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    for sizes in convolutions:
        if not (isinstance(sizes, (list, tuple)) and len(sizes) == 3 and all(is_whole(size, 1) for size in sizes)):
            raise choices("model.convolutions", sizes, "[channels, kernel, stride], three whole numbers, 1 or more")
        whole("model.convolutions: channels, kernel and stride", max(sizes), 1, MOST_WIDTH)
    if not convolutions:
        raise choices("model.convolutions", convolutions, "one convolution or more")
    return [cast(tuple[int, int, int], tuple(sizes)) for sizes in convolutions]


def _check_positions(positions: Mapping[str, int]) -> tuple[int, int]:
    if not isinstance(positions, Mapping) or positions.keys() != {"buckets", "max_distance"}:
        raise choices("model.relative_positions", positions, "null, or {buckets: 320, max_distance: 800}")
    buckets = whole("model.relative_positions.buckets", positions["buckets"], 4, MOST_WIDTH)
    least = buckets // 4 + 1  # half of the buckets of each direction hold one distance each
    return buckets, whole("model.relative_positions.max_distance", positions["max_distance"], least, MOST_WIDTH)
