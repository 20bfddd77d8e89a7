"""Batches of utterances."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from asr_ablations.tools.masks import valid_frames


@dataclass
class Batch:
    """B utterances, ragged: nothing is padded before it is on the model's device.

    audio: concatenated int16 samples of all utterances (sum of lengths,); lengths: samples (B,), kept on the CPU, where
    sizes can be read without a synchronisation; targets: concatenated label indices; target_lengths: labels (B,), CPU;
    ids, texts: B strings; features: concatenated float16 frames of all utterances (sum of frames, F), where they were
    computed beforehand and there is no audio; frame_labels: the label of each output frame (B, T), where utterances are
    cut into chunks.
    """

    audio: torch.Tensor
    lengths: torch.Tensor
    targets: torch.Tensor
    target_lengths: torch.Tensor
    ids: list[str]
    texts: list[str]
    features: torch.Tensor | None = None
    frame_labels: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device, non_blocking: bool = True) -> "Batch":
        """Return the batch with audio and targets on `device`; the lengths stay on the CPU, where CTC needs them."""
        return self._moved(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "Batch":
        return self._moved(torch.Tensor.pin_memory)

    def _moved(self, move: Callable[[torch.Tensor], torch.Tensor]) -> "Batch":
        features = None if self.features is None else move(self.features)
        return replace(self, audio=move(self.audio), targets=move(self.targets), features=features)

    def waveforms(self) -> torch.Tensor:
        """Return the samples in -1..1, padded with zeros: (B, S) float32 on the audio's device."""
        return _padded(self.audio.float()[:, None] / 32768, self.lengths)[..., 0]

    def padded_features(self, frames: torch.Tensor) -> torch.Tensor:
        """Return the features padded with zeros: (B, T, F) float32 on their device; frames: (B,)."""
        assert self.features is not None
        return _padded(self.features.float(), frames)

    def padding(self) -> float:
        """Return the share of the padded batch that is padding, 0..1."""
        return 1 - float(self.lengths.sum()) / max(1.0, float(self.lengths.max()) * len(self))


def unlabelled_batch(waveforms: Sequence[np.ndarray]) -> Batch:
    """Return a batch of int16 waveforms (S,) at 16 kHz without texts and targets, for recognition."""
    count = len(waveforms)
    return Batch(
        audio=torch.from_numpy(np.concatenate(waveforms)),
        lengths=torch.tensor([len(samples) for samples in waveforms]),
        targets=torch.zeros(0, dtype=torch.long),
        target_lengths=torch.zeros(count, dtype=torch.long),
        ids=[""] * count,
        texts=[""] * count,
    )


def _padded(values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Pad concatenated values: (sum of lengths, F) → (B, longest, F); lengths (B,) on the CPU."""
    size = int(lengths.max()) if len(lengths) else 0
    valid = valid_frames(lengths, size, values.device)
    padded = values.new_zeros(*valid.shape, values.shape[1])
    return padded.masked_scatter_(valid[..., None], values)
