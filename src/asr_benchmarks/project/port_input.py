"""The input of the usual PyTorch port of DeepSpeech2: what benchmark=peer is measured against.

Every utterance is decoded from its file and turned into a spectrogram on the CPU each time it is needed; a batch is a
tensor of zeros into which the spectrograms are copied one after another.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from asr_ablations.data import audio
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.utterance import Utterance

Item: TypeAlias = tuple[torch.Tensor, list[int]]
"""Features (T, F) and labels of one utterance."""


@dataclass(frozen=True)
class PortBatch:
    """features (B, T, F), normalised over all values of an utterance; lengths (B,) in frames; targets of all utterances
    one after another.
    """

    features: torch.Tensor
    lengths: torch.Tensor
    targets: torch.Tensor
    target_lengths: torch.Tensor

    def to(self, device: torch.device) -> "PortBatch":
        return replace(self, features=self.features.to(device), targets=self.targets.to(device))


class PortData(Dataset[Item]):
    """Features (T, F) and labels of each utterance, computed at every access."""

    def __init__(self, utterances: Sequence[Utterance], alphabet: Alphabet, features: nn.Module) -> None:
        self.utterances, self.alphabet, self.features = utterances, alphabet, features

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, index: int) -> Item:
        utterance = self.utterances[index]
        samples = audio.read(utterance.audio, utterance.offset, utterance.duration)
        with torch.no_grad():
            waveform = torch.from_numpy(samples).float()[None] / 32768
            features = self.features(waveform, torch.tensor([len(samples)]))[0][0]
        return (features - features.mean()) / features.std(), self.alphabet.encode(utterance.text)


def port_loader(data: PortData, batches: Sequence[list[int]], workers: int) -> DataLoader[Item]:
    """Loader of PortBatches with these indices, in this order."""
    return DataLoader(
        data,
        batch_sampler=batches,
        collate_fn=_padded,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=torch.cuda.is_available(),
    )


def _padded(items: Sequence[Item]) -> PortBatch:
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
