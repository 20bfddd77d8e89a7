"""DeepSpeech2 as it is usually ported to PyTorch: what benchmark=step is measured against.

The structure of deepspeech.pytorch's model: each utterance's padding overwritten in a loop after every convolution,
norm and rectifier (MaskConv), every recurrent layer packed and unpacked (BatchRNN), batch normalisation over the
padding.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from asr_ablations.components.model.convolution import CEILING
from asr_ablations.components.norm.batch import BatchNorm


class NaiveDeepSpeech2(nn.Module):
    """(features (B, T, D), lengths (B,)) → (logits (B, T', V), lengths (B,)), with copies of a DeepSpeech2's weights.

    Raises ValueError for what the usual port has not: other norms than batch, convolutions without padding, recurrent
    layers that are none of torch's, directions that are not summed.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        if not (
            all(isinstance(part.norm, BatchNorm) and hasattr(part, "time_stride") for part in model.convolutions)
            and all(isinstance(norm, BatchNorm) for norm in model.norms)
            and all(isinstance(getattr(x.forwards, "cell", None), nn.RNNBase) for x in model.recurrent)
            and all(x.backwards is not None and not x.concatenate for x in model.recurrent)
            and model.lookahead is None
        ):
            raise ValueError("expected norm=batch, torch's own recurrent cells, both directions summed")
        self.output_lengths = model.output_lengths
        self.strides = [part.time_stride for part in model.convolutions]
        self.convolutions = nn.ModuleList(
            nn.Sequential(
                _transposed(part.convolve), _norm(part.norm, nn.BatchNorm2d), nn.Hardtanh(0, CEILING, inplace=True)
            )
            for part in model.convolutions
        )
        self.recurrent = nn.ModuleList(_bidirectional(layer) for layer in model.recurrent)
        self.norms = nn.ModuleList(_norm(norm, nn.BatchNorm1d) for norm in model.norms)
        self.rate = model.dropouts[0].rate
        self.output = nn.Linear(model.output.in_features, model.output.out_features)
        self.output.load_state_dict(model.output.state_dict())

    def forward(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = features.transpose(1, 2)[:, None]  # (B, 1, F, T)
        for convolution, stride in zip(self.convolutions, self.strides, strict=True):
            lengths = (lengths + stride - 1) // stride
            for part in convolution:  # type: ignore[attr-defined]
                x = _without_padding(part(x), lengths)
        x = self._dropped(x.flatten(1, 2).permute(2, 0, 1))  # (T', B, C·F')
        for recurrent, norm in zip(self.recurrent, self.norms, strict=True):
            packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
            x, _ = pad_packed_sequence(recurrent(packed)[0])
            x = x.unflatten(2, (2, -1)).sum(2)
            x = self._dropped(norm(x.flatten(0, 1)).unflatten(0, x.shape[:2]))
        return self.output(x).transpose(0, 1), lengths

    def _dropped(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x, self.rate, self.training)


def _without_padding(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """(B, C, F, T) with zeros past the lengths, an utterance after another."""
    mask = torch.zeros(x.shape, dtype=torch.bool, device=x.device)
    for row, length in enumerate(lengths):
        frames = length.item()
        if mask[row].size(2) - frames > 0:
            mask[row].narrow(2, int(frames), int(mask[row].size(2) - frames)).fill_(1)
    return x.masked_fill(mask, 0)


def _transposed(convolve: nn.Conv2d) -> nn.Conv2d:
    """From (B, C, T, F) to (B, C, F, T)."""
    options: Any = {name: tuple(reversed(getattr(convolve, name))) for name in ("kernel_size", "stride", "padding")}
    made = nn.Conv2d(convolve.in_channels, convolve.out_channels, **options)
    made.weight.data.copy_(convolve.weight.data.transpose(2, 3))
    made.bias.data.copy_(convolve.bias.data)  # type: ignore[union-attr]
    return made


def _norm(norm: Any, kind: type[nn.BatchNorm1d] | type[nn.BatchNorm2d]) -> nn.Module:
    made = kind(len(norm.weight), eps=norm.epsilon, momentum=norm.momentum)
    made.weight.data.copy_(norm.weight.data)
    made.bias.data.copy_(norm.bias.data)
    made.running_mean.copy_(norm.running_mean)  # type: ignore[union-attr]
    made.running_var.copy_(norm.running_variance)  # type: ignore[union-attr]
    return made


def _bidirectional(layer: Any) -> nn.RNNBase:
    one, other = layer.forwards.cell, layer.backwards.cell
    options = {"nonlinearity": one.nonlinearity} if isinstance(one, nn.RNN) else {}
    made: nn.RNNBase = type(one)(one.input_size, one.hidden_size, bidirectional=True, **options)
    for name, value in one.named_parameters():
        getattr(made, name).data.copy_(value.data)
        getattr(made, f"{name}_reverse").data.copy_(getattr(other, name).data)
    return made
