"""Batches of utterances, their sizes, and the interfaces for their order, alphabet and augmentation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Sampler

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus
from asr_ablations.tools.masks import valid_frames
from asr_ablations.tools.random_streams import generator


@dataclass
class Batch:
    """A batch of B utterances, concatenated without padding. Padding is added later, on the model's device.

    - audio: int16 samples of all utterances, (sum of lengths,)
    - lengths: number of samples of each utterance, (B,), on the CPU, where reading them needs no synchronisation
    - targets: label indices of all utterances, (sum of target_lengths,)
    - target_lengths: number of labels of each utterance, (B,), on the CPU
    - features: float16 features of all utterances, (sum of frames, F), if features are cached; then `audio` is empty
    - frame_labels: label of each output frame, (B, T), if utterances are cut into chunks
    - views: number of differently augmented copies of each utterance; entries 0 to B / views - 1 are the first copies
    """

    audio: torch.Tensor
    lengths: torch.Tensor
    targets: torch.Tensor
    target_lengths: torch.Tensor
    ids: list[str]
    texts: list[str]
    features: torch.Tensor | None = None
    frame_labels: torch.Tensor | None = None
    views: int = 1

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device, non_blocking: bool = True) -> "Batch":
        """Return the batch with audio, features and targets on `device`. Lengths stay on the CPU, as CTC requires."""
        return self._move(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "Batch":
        return self._move(torch.Tensor.pin_memory)

    def _move(self, move: Callable[[torch.Tensor], torch.Tensor]) -> "Batch":
        features = None if self.features is None else move(self.features)
        return replace(self, audio=move(self.audio), targets=move(self.targets), features=features)

    def waveforms(self) -> torch.Tensor:
        """Return float32 samples (B, S), scaled to -1..1 and zero-padded, on the device of `audio`."""
        return _pad(self.audio.float()[:, None] / 32768, self.lengths)[..., 0]

    def padded_features(self, frames: torch.Tensor) -> torch.Tensor:
        """Return zero-padded float32 features (B, T, F). frames: number of frames of each utterance, (B,)."""
        assert self.features is not None
        return _pad(self.features.float(), frames)

    def repeat(self, views: int) -> "Batch":
        """Return a batch that repeats lengths, targets, ids and texts `views` times, but not audio or features."""
        return replace(
            self,
            lengths=self.lengths.repeat(views),
            targets=self.targets.repeat(views),
            target_lengths=self.target_lengths.repeat(views),
            ids=self.ids * views,
            texts=self.texts * views,
            views=views,
        )

    def padding(self) -> float:
        """Return the share of padding in the padded batch, from 0 to 1."""
        return 1 - float(self.lengths.sum()) / max(1.0, float(self.lengths.max()) * len(self))


def unlabelled_batch(waveforms: Sequence[np.ndarray]) -> Batch:
    """Make a batch from int16 waveforms (S,) at 16 kHz that have no transcripts."""
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
    """Split concatenated values (sum of lengths, F) into a zero-padded tensor (B, T, F). lengths: (B,), on the CPU."""
    if values.device.type == "cpu" and len(lengths):  # a quarter of the time of the operations below
        return pad_sequence(values.split(lengths.tolist()), batch_first=True)
    size = int(lengths.max()) if len(lengths) else 0
    valid = valid_frames(lengths, size, values.device)
    padded = values.new_zeros(*valid.shape, values.shape[1])
    return padded.masked_scatter_(valid[..., None], values)


MULTIPLE = 8
"""A GPU's matrix units are fastest if the batch size is a multiple of this number."""


@dataclass(frozen=True)
class Count:
    """A batch size of `size` utterances per rank."""

    size: int
    ranks: int

    def count(self, longest: float) -> int:
        """Return the number of utterances in a batch for all ranks. longest: seconds of its longest utterance."""
        return self.size * self.ranks

    def cut(self, durations: np.ndarray) -> list[int]:
        """Return the indices at which N utterances are cut into batches. Their number is the same in any order."""
        return list(range(self.size * self.ranks, len(durations), self.size * self.ranks))


@dataclass(frozen=True)
class Seconds:
    """A batch size of `seconds` of audio per rank.

    `count` includes padding, and rounds 8 or more utterances per rank down to a multiple of 8; `cut` does neither.
    """

    seconds: float
    ranks: int

    def count(self, longest: float) -> int:
        fits = max(1, int(self.seconds / max(longest, 1e-3)))
        return self.ranks * (fits - fits % MULTIPLE if fits >= MULTIPLE else fits)

    def cut(self, durations: np.ndarray) -> list[int]:
        """Return the indices that cut utterances into batches with about equal amounts of audio, without padding."""
        ends = durations.cumsum()  # no batch becomes empty, because `seconds` is at least the longest duration
        batches = max(1, int(ends[-1] / (self.seconds * self.ranks)))
        middles = ends - durations / 2
        return np.searchsorted(middles, ends[-1] * np.arange(1, batches) / batches).tolist()


BatchSize = Count | Seconds


def batch_size(size: int | None, seconds: float | None, ranks: int) -> BatchSize:
    """Return the batch size in utterances or in seconds of audio, whichever is set."""
    return Count(size, ranks) if size is not None else Seconds(seconds or 0.0, ranks)


class EpochBatch(list[int]):
    """Indices of the utterances in a batch. epoch: current epoch, which determines how they are augmented."""

    epoch: int


class BatchOrder(Sampler[list[int]]):
    """Samples the batches of each epoch. Their random order depends only on (seed, epoch).

    `order` forms batches of `batch_size` for all ranks together. The utterances of a batch are sorted by duration and
    dealt to the ranks in turn, so all ranks get about the same amount of audio. Every utterance occurs once per epoch.
    A batch with fewer utterances than there are ranks is merged into the previous batch.
    """

    def __init__(
        self, durations: np.ndarray, batch_size: BatchSize, order: "Order", seed: int, rank: int, ranks: int
    ) -> None:
        self.durations, self.batch_size, self.order, self.seed = durations, batch_size, order, seed
        self.rank, self.ranks = rank, ranks
        self.epoch = 0
        self.sampler = self  # Lightning calls batch_sampler.sampler.set_epoch before each pass
        self._resumed = (0, 0)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def resume(self, epoch: int, done: int) -> None:
        """Skip the first `done` batches of `epoch` in the next pass. The sampler's length still counts all batches."""
        self.epoch, self._resumed = epoch, (epoch, done)

    def batches(self) -> list[EpochBatch]:
        """Return this rank's share of every batch in the epoch."""
        drawn = self.order(self.durations, self.batch_size, self.epoch, generator(self.seed, "order", self.epoch))
        return [self._take_share(batch) for batch in _merge(drawn, self.ranks)]

    def _take_share(self, batch: np.ndarray) -> EpochBatch:
        if self.ranks > 1:
            batch = batch[np.argsort(self.durations[batch], kind="stable")][self.rank :: self.ranks]
        share = EpochBatch(batch.tolist())
        share.epoch = self.epoch
        return share

    def __iter__(self) -> Iterator[list[int]]:
        # A generator does nothing before its first batch is requested. This matters because a DataLoader with workers
        # creates two iterators and discards the first.
        epoch, done = self._resumed
        self._resumed = (self.epoch, 0)
        yield from self.batches()[done if epoch == self.epoch else 0 :]

    @cached_property
    def _count(self) -> int:
        return len(self.batches())

    def __len__(self) -> int:
        return self._count


def _merge(batches: list[np.ndarray], ranks: int) -> list[np.ndarray]:
    """Merge batches until each has at least one utterance per rank."""
    joined: list[np.ndarray] = []
    for batch in batches:
        if joined and min(len(batch), len(joined[-1])) < ranks:
            joined[-1] = np.concatenate([joined[-1], batch])
        else:
            joined.append(batch)
    return joined


@runtime_checkable
class Order(Protocol):
    """order: assigns utterances to batches and orders the batches."""

    def __call__(
        self, durations: np.ndarray, batch_size: BatchSize, epoch: int, generator: np.random.Generator
    ) -> list[np.ndarray]:
        """Return batches for all ranks together, as arrays of utterance indices. durations: in seconds, (N,).

        Each index occurs once, no batch exceeds `batch_size`, and every epoch has the same number of batches. Random
        numbers come only from `generator`. N may be 0.
        """


@runtime_checkable
class AlphabetFactory(Protocol):
    """alphabet: creates the alphabet for a corpus."""

    def __call__(self, corpus: Corpus) -> Alphabet:
        """Return the alphabet. The corpus must be prepared if the alphabet is derived from the training text."""

    def restore(self, state: Mapping[str, object]) -> Alphabet:
        """Return the alphabet for a checkpoint that stores its `state()`, without reading the training text."""


@runtime_checkable
class Augmentation(Protocol):
    """augment: alters each training utterance differently in every epoch. Not used in validation and test.

    Random numbers depend only on (seed, epoch, utterance id), not on the batch, worker or rank.
    """

    changes_waveforms: bool
    """Whether `waveform` changes the samples. If it does, features cannot be cached."""

    def waveform(self, samples: np.ndarray, id_: str, seed: int, epoch: int) -> np.ndarray:
        """Augment the int16 samples of an utterance at 16 kHz: (S,) → (S',). S may be 0."""

    def __call__(
        self, features: torch.Tensor, lengths: torch.Tensor, ids: list[str], seed: int, epoch: int
    ) -> torch.Tensor:
        """Augment normalised features (B, T, F). lengths: number of frames of each utterance, (B,), on the CPU."""
