"""Batches of utterances."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus
from asr_ablations.tools.masks import valid_frames


@dataclass
class Batch:
    """B utterances, concatenated: padding is added on the model's device.

    - audio: int16 samples (sum of lengths,); lengths: samples (B,) on the CPU, where reading sizes needs no
      synchronisation
    - targets: label indices (sum of target_lengths,); target_lengths: labels (B,) on the CPU
    - features: float16 frames (sum of frames, F) if they were precomputed, and then without audio
    - frame_labels: label of each output frame (B, T) if utterances are cut into chunks
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
        return self._move(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "Batch":
        return self._move(torch.Tensor.pin_memory)

    def _move(self, move: Callable[[torch.Tensor], torch.Tensor]) -> "Batch":
        features = None if self.features is None else move(self.features)
        return replace(self, audio=move(self.audio), targets=move(self.targets), features=features)

    def waveforms(self) -> torch.Tensor:
        """Return the samples scaled to -1..1 and padded with zeros: (B, S) float32 on the audio's device."""
        return _pad(self.audio.float()[:, None] / 32768, self.lengths)[..., 0]

    def padded_features(self, frames: torch.Tensor) -> torch.Tensor:
        """Return features padded with zeros: (B, T, F) float32 on their device. frames: (B,)."""
        assert self.features is not None
        return _pad(self.features.float(), frames)

    def padding(self) -> float:
        """Return the padding's share of the padded batch, from 0 to 1."""
        return 1 - float(self.lengths.sum()) / max(1.0, float(self.lengths.max()) * len(self))


def unlabelled_batch(waveforms: Sequence[np.ndarray]) -> Batch:
    """Return a batch of int16 waveforms (S,) at 16 kHz without texts, for recognition."""
    count = len(waveforms)
    return Batch(
        audio=torch.from_numpy(np.concatenate(waveforms)),
        lengths=torch.tensor([len(samples) for samples in waveforms]),
        targets=torch.zeros(0, dtype=torch.long),
        target_lengths=torch.zeros(count, dtype=torch.long),
        ids=[""] * count,
        texts=[""] * count,
    )


def _pad(values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Pad concatenated values: (sum of lengths, F) → (B, longest, F); lengths (B,) on the CPU."""
    size = int(lengths.max()) if len(lengths) else 0
    valid = valid_frames(lengths, size, values.device)
    padded = values.new_zeros(*valid.shape, values.shape[1])
    return padded.masked_scatter_(valid[..., None], values)


MULTIPLE = 8
"""A GPU's matrix units are fastest if the batch size is a multiple of this."""


class Count:
    """The batch size of one training step over all ranks: `size` utterances per rank."""

    def __init__(self, size: int, ranks: int) -> None:
        self.size = size * ranks

    def count(self, longest: float) -> int:
        """Return the number of utterances in a batch whose longest utterance has `longest` seconds."""
        return self.size

    def cut(self, durations: np.ndarray) -> list[int]:
        """Return the indices at which to cut a sequence of utterances with these durations in seconds. The number of
        cuts does not depend on the order.
        """
        return list(range(self.size, len(durations), self.size))


class Seconds:
    """`seconds` of audio per rank, including padding if the longest utterance is known beforehand. From eight
    utterances on, batches are rounded down to a multiple of eight.
    """

    def __init__(self, seconds: float, ranks: int) -> None:
        self.seconds, self.ranks = seconds, ranks

    def count(self, longest: float) -> int:
        fits = max(1, int(self.seconds / max(longest, 1e-3)))
        return self.ranks * (fits - fits % MULTIPLE if fits >= MULTIPLE else fits)

    def cut(self, durations: np.ndarray) -> list[int]:
        """Cut into parts with equal amounts of audio, ignoring padding. No part is empty, because each is at least as
        long as an utterance.
        """
        ends = durations.cumsum()
        batches = max(1, int(ends[-1] / (self.seconds * self.ranks)))
        middles = ends - durations / 2
        return np.searchsorted(middles, ends[-1] * np.arange(1, batches) / batches).tolist()


BatchSize = Count | Seconds


def batch_size(size: int | None, seconds: float | None, ranks: int) -> BatchSize:
    """Return the rule for `size` or `seconds`, whichever is set."""
    return Count(size, ranks) if size is not None else Seconds(seconds or 0.0, ranks)


@runtime_checkable
class AlphabetFactory(Protocol):
    """alphabet: returns the alphabet for the transcripts of a corpus."""

    def __call__(self, corpus: Corpus) -> Alphabet:
        """May read the training text. A fixed alphabet does not, so the corpus need not be prepared for it."""


@runtime_checkable
class Augmentation(Protocol):
    """augment: alters each training utterance differently in every epoch; not used in validation and test.

    Random draws depend only on (seed, epoch, utterance id), not on batch, workers or ranks.
    """

    changes_waveforms: bool
    """True if `waveform` changes the samples, so that features cannot be cached."""

    def waveform(self, samples: np.ndarray, id_: str, seed: int, epoch: int) -> np.ndarray:
        """int16 samples (S,) at 16 kHz → int16 (S',) of one utterance, in the reading process. S may be 0."""

    def __call__(
        self, features: torch.Tensor, lengths: torch.Tensor, ids: list[str], seed: int, epoch: int
    ) -> torch.Tensor:
        """Normalised features (B, T, F) → the same shape, on the model's device. lengths: frames (B,) on the CPU.
        Values beyond a length are ignored.
        """
