"""DeepSpeech2 as it is usually ported to PyTorch, for the comparisons in benchmark=step and benchmark=peer.

The structure is the same as in deepspeech.pytorch. Padding is set to 0 utterance by utterance after every convolution,
norm and rectifier (MaskConv), recurrent layers pack sequences (BatchRNN), and batch norm includes the padding.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, Dataset

from asr_ablations.components.model.convolution import CEILING, PaddedConvolution
from asr_ablations.components.model.directions import Directions
from asr_ablations.components.model.dropout import Dropout
from asr_ablations.components.norm.batch import BatchNorm
from asr_ablations.data import audio
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.utterances import Utterance
from asr_ablations.training.task import CTCTask

Item: TypeAlias = tuple[torch.Tensor, list[int]]
"""Features (T, F) and labels of an utterance."""


@dataclass(frozen=True)
class PortBatch:
    """A batch with normalised features (B, T, F), lengths in frames (B,), and concatenated targets."""

    features: torch.Tensor
    lengths: torch.Tensor
    targets: torch.Tensor
    target_lengths: torch.Tensor

    def to(self, device: torch.device) -> "PortBatch":
        return replace(self, features=self.features.to(device), targets=self.targets.to(device))


class PortData(Dataset[Item]):
    """A dataset of features (T, F) and labels, which are computed again at every access."""

    def __init__(self, utterances: Sequence[Utterance], alphabet: Alphabet, features: nn.Module) -> None:
        self.utterances, self.alphabet, self.features = utterances, alphabet, features

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, index: int) -> Item:
        utterance = self.utterances[index]
        samples = audio.read(utterance.audio, utterance.offset, utterance.duration, utterance.channel)
        with torch.no_grad():
            waveform = torch.from_numpy(samples).float()[None] / 32768
            features = self.features(waveform, torch.tensor([len(samples)]))[0][0]
        return (features - features.mean()) / features.std(), self.alphabet.encode(utterance.text)


def port_loader(data: PortData, batches: Sequence[list[int]], workers: int) -> DataLoader[Item]:
    """Return a loader of PortBatches in the given order. batches: utterance indices of each batch."""
    return DataLoader(
        data,
        batch_sampler=batches,
        collate_fn=_collate,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=torch.cuda.is_available(),
    )


def _collate(items: Sequence[Item]) -> PortBatch:
    longest = max(len(features) for features, _ in items)
    inputs = torch.zeros(len(items), longest, items[0][0].shape[1])
    for row, (features, _) in zip(inputs, items, strict=True):
        row.narrow(0, 0, len(features)).copy_(features)
    return PortBatch(
        features=inputs,
        lengths=torch.tensor([len(features) for features, _ in items]),
        targets=torch.tensor([label for _, labels in items for label in labels]),
        target_lengths=torch.tensor([len(labels) for _, labels in items]),
    )


class PortedDeepSpeech2(nn.Module):
    """The usual port with a copy of the weights of `model`. Raises ValueError if it does not support the model.

    (features (B, T, D), lengths (B,)) → (logits (B, T', V), lengths (B,))
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        padded = [layer for layer in model.convolutions if isinstance(layer, PaddedConvolution)]
        if len(padded) < len(model.convolutions) or not _is_portable(model):
            raise ValueError("expected norm=batch, torch's recurrent cells, and the sum of both directions")
        self.output_lengths = model.output_lengths
        self.strides = [layer.time_stride for layer in padded]
        self.convolutions = nn.ModuleList(
            nn.Sequential(
                _transpose(layer.convolve),
                _copy_norm(layer.norm, nn.BatchNorm2d),
                nn.Hardtanh(0, CEILING, inplace=True),
            )
            for layer in padded
        )
        self.recurrent = nn.ModuleList(_join_directions(layer) for layer in model.recurrent)
        self.norms = nn.ModuleList(_copy_norm(norm, nn.BatchNorm1d) for norm in model.norms)
        dropout = model.dropouts[0]
        assert isinstance(dropout, Dropout)
        self.rate = dropout.rate
        self.output = nn.Linear(model.output.in_features, model.output.out_features)
        self.output.load_state_dict(model.output.state_dict())

    def forward(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = features.transpose(1, 2)[:, None]  # (B, 1, F, T)
        for convolution, stride in zip(self.convolutions, self.strides, strict=True):
            lengths = (lengths + stride - 1) // stride
            for part in convolution.children():
                x = _mask_padding(part(x), lengths)
        x = self._drop(x.flatten(1, 2).permute(2, 0, 1))  # (T', B, C·F')
        for recurrent, norm in zip(self.recurrent, self.norms, strict=True):
            packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
            x, _ = pad_packed_sequence(recurrent(packed)[0])
            x = x.unflatten(2, (2, -1)).sum(2)
            x = self._drop(norm(x.flatten(0, 1)).unflatten(0, x.shape[:2]))
        return self.output(x).transpose(0, 1), lengths

    def _drop(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x, self.rate, self.training)


def _is_portable(model: Any) -> bool:
    """Return whether the usual port supports the norms and layers of a model."""
    norms = [*(layer.norm for layer in model.convolutions), *model.norms]
    layers = model.recurrent
    return (
        model.lookahead is None
        and not model.connected
        and all(isinstance(norm, BatchNorm) for norm in norms)
        and all(_get_cell(layer.forwards) is not None for layer in layers)
        and all(layer.backwards is not None and not layer.concatenate for layer in layers)
    )


def _get_cell(direction: nn.Module | None) -> nn.RNNBase | None:
    """Return the torch recurrent module that computes one direction of a layer, or None if there is none."""
    cell = getattr(direction, "cell", None)
    return cell if isinstance(cell, nn.RNNBase) else None


def _mask_padding(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Set the padding of x (B, C, F, T) to 0, in a loop over the utterances as in deepspeech.pytorch."""
    mask = torch.zeros(x.shape, dtype=torch.bool, device=x.device)
    for row, length in enumerate(lengths):
        frames = length.item()
        if mask[row].size(2) - frames > 0:
            mask[row].narrow(2, int(frames), int(mask[row].size(2) - frames)).fill_(1)
    return x.masked_fill(mask, 0)


def _transpose(convolve: nn.Conv2d) -> nn.Conv2d:
    """Copy a convolution over inputs (B, C, T, F) into a convolution over inputs (B, C, F, T)."""
    assert not isinstance(convolve.padding, str)
    sizes: Any = (convolve.kernel_size[::-1], convolve.stride[::-1], convolve.padding[::-1])
    copied = nn.Conv2d(convolve.in_channels, convolve.out_channels, *sizes)
    copied.load_state_dict({"weight": convolve.weight.transpose(2, 3), "bias": convolve.get_parameter("bias")})
    return copied


def _copy_norm(norm: nn.Module, kind: type[nn.BatchNorm1d] | type[nn.BatchNorm2d]) -> nn.Module:
    assert isinstance(norm, BatchNorm)
    copied = kind(len(norm.weight), eps=norm.epsilon, momentum=norm.momentum)
    weights = {"weight": norm.weight, "bias": norm.bias}
    statistics = {"running_mean": norm.running_mean, "running_var": norm.running_variance}
    copied.load_state_dict({**weights, **statistics}, strict=False)  # our norm does not count batches
    return copied


def _join_directions(layer: Directions) -> nn.RNNBase:
    forwards, backwards = _get_cell(layer.forwards), _get_cell(layer.backwards)
    assert forwards is not None
    assert backwards is not None
    options = {"nonlinearity": forwards.nonlinearity} if isinstance(forwards, nn.RNN) else {}
    kind: Callable[..., nn.RNNBase] = type(forwards)
    copied = kind(forwards.input_size, forwards.hidden_size, bidirectional=True, **options)
    reversed_weights = {f"{name}_reverse": value for name, value in backwards.state_dict().items()}
    copied.load_state_dict({**forwards.state_dict(), **reversed_weights})
    return copied


def usual_port(task: CTCTask, precision: int | str) -> PortedDeepSpeech2 | None:
    """Build the port with a copy of the task's weights, or None if it does not support the model or precision."""
    if str(precision).endswith("true"):
        return None  # the port's norms would also run in 16 bits
    try:
        return PortedDeepSpeech2(task.model).to(task.device).train()
    except ValueError:
        return None
