"""Utterances as a dataset, and lists of them as batches."""

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset, get_worker_info

from asr_ablations.data.alphabet import Alphabet, shortest_path
from asr_ablations.data.batch import Batch
from asr_ablations.data.sampler import EpochBatch
from asr_ablations.data.store import Store
from asr_ablations.data.utterance import Utterance
from asr_ablations.tools.errors import UsageError


class Item(NamedTuple):
    """One utterance as read: int16 samples (S,) or float16 features (T, F); its length in samples; labels."""

    values: np.ndarray
    samples: int
    labels: list[int]
    utterance: Utterance


class Unreadable(str):
    """The message for an utterance that cannot be read: a worker would send an exception as a page of text."""


class Perturbation:
    """Augments the waveforms of a training set; each draw depends on (seed, epoch, utterance id).

    waveform: (samples, id, seed, epoch) → samples; output_frames: lengths in samples (B,) → the model's frames (B,).
    """

    def __init__(
        self,
        waveform: Callable[[np.ndarray, str, int, int], np.ndarray],
        output_frames: Callable[[torch.Tensor], torch.Tensor],
        seed: int,
    ) -> None:
        self.waveform, self.output_frames, self.seed = waveform, output_frames, seed

    def __call__(self, item: Item, epoch: int) -> Item:
        """Return the item for one epoch, unchanged if it would become too short for CTC to learn its labels."""
        samples = self.waveform(item.values, item.utterance.id, self.seed, epoch)
        shorter = len(samples) < len(item.values)
        if shorter and int(self.output_frames(torch.tensor([len(samples)]))) < shortest_path(item.labels):
            return item
        return item._replace(values=samples, samples=len(samples))


class Speech(Dataset):
    """Utterances and their labels, read from `store`. Batches of a sampler with epochs are perturbed."""

    def __init__(
        self, utterances: list[Utterance], alphabet: Alphabet, store: Store, perturbation: Perturbation | None = None
    ) -> None:
        self.utterances, self.alphabet, self.store, self.perturbation = utterances, alphabet, store, perturbation
        self.durations = np.array([u.duration for u in utterances])
        self.reading: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, index: int) -> Item:
        """Raises UsageError with the utterance's id if it cannot be read."""
        utterance = self.utterances[index]
        self._note(index)
        try:
            values, samples = self.store.read(utterance)
        except UsageError as error:
            raise UsageError(f"utterance {utterance.id}: {error}") from error
        return Item(values, samples, self.alphabet.encode(utterance.text), utterance)

    def __getitems__(self, batch: list[int]) -> list[Item] | Unreadable:
        try:
            items = [self[index] for index in batch]
        except UsageError as error:
            return Unreadable(error)
        if self.perturbation is None or not isinstance(batch, EpochBatch):
            return items
        return [self.perturbation(item, batch.epoch) for item in items]

    def watch(self, workers: int) -> None:
        """Record in shared memory which utterance each worker reads, for `abandoned`."""
        self.reading = torch.full((max(1, workers), 2), -1, dtype=torch.long).share_memory_().numpy()

    def _note(self, index: int) -> None:
        worker = get_worker_info()
        if worker is not None and self.reading is not None:
            self.reading[worker.id] = os.getpid(), index

    def abandoned(self, alive: set[int | None]) -> list[Utterance]:
        """Return the utterances last read by workers whose process ids are not among `alive`."""
        watched = [] if self.reading is None else self.reading.tolist()
        return [self.utterances[index] for pid, index in watched if index >= 0 and pid not in alive]


def collate(items: Sequence[Item] | Unreadable) -> Batch | Unreadable:
    """Return the items as a ragged batch."""
    if isinstance(items, Unreadable):
        return items
    values, samples, labels, utterances = zip(*items, strict=True)
    joined = torch.from_numpy(np.concatenate(values))
    return Batch(
        audio=joined if joined.ndim == 1 else torch.empty(0, dtype=torch.int16),
        lengths=torch.tensor(samples),
        targets=torch.tensor([label for utterance_labels in labels for label in utterance_labels], dtype=torch.long),
        target_lengths=torch.tensor([len(x) for x in labels]),
        ids=[u.id for u in utterances],
        texts=[u.text for u in utterances],
        features=None if joined.ndim == 1 else joined,
    )
