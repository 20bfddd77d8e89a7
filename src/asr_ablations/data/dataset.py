"""The dataset of utterances, and the loader of its batches."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from asr_ablations.data.alphabet import Alphabet, shortest_path
from asr_ablations.data.batch import Batch
from asr_ablations.data.batch_order import EpochBatch
from asr_ablations.data.recording_cache import Store
from asr_ablations.data.utterances import Utterance, Utterances
from asr_verdicts.errors import UsageError


class Item(NamedTuple):
    """An utterance after reading: int16 samples (S,) or float16 features (T, F), its length in samples, labels (L,)."""

    values: np.ndarray
    samples: int
    labels: np.ndarray
    utterance: Utterance


class Unreadable(str):
    """The message for an unreadable utterance. A worker would send an exception as a page of text."""


class Perturbation:
    """Augments the waveforms of a training set; random draws depend on (seed, epoch, utterance id).

    waveform: (samples, id, seed, epoch) → samples. output_frames: lengths in samples (B,) → model frames (B,).
    """

    def __init__(
        self,
        waveform: Callable[[np.ndarray, str, int, int], np.ndarray],
        output_frames: Callable[[torch.Tensor], torch.Tensor],
        seed: int,
    ) -> None:
        self.waveform, self.output_frames, self.seed = waveform, output_frames, seed

    def __call__(self, item: Item, epoch: int) -> Item:
        """Return the item for one epoch, unchanged if it would become too short for CTC."""
        samples = self.waveform(item.values, item.utterance.id, self.seed, epoch)
        shorter = len(samples) < len(item.values)
        if shorter and int(self.output_frames(torch.tensor([len(samples)]))) < shortest_path(item.labels):
            return item
        return item._replace(values=samples, samples=len(samples))


class Speech(Dataset):
    """Labelled utterances, read from `store`. Augmentation applies to batches from a sampler with epochs."""

    def __init__(
        self,
        utterances: Sequence[Utterance],
        alphabet: Alphabet,
        store: Store,
        perturbation: Perturbation | None = None,
    ) -> None:
        self.alphabet, self.store, self.perturbation = alphabet, store, perturbation
        self.utterances = Utterances.convert(utterances)
        self.durations = self.utterances.column("duration")

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, index: int) -> Item:
        """Raises UsageError with the utterance's id if it cannot be read."""
        utterance = self.utterances[index]
        try:
            values, samples = self.store.read(utterance)
        except UsageError as error:
            raise UsageError(f"utterance {utterance.id}: {error}") from error
        return Item(values, samples, np.array(self.alphabet.encode(utterance.text), np.int64), utterance)

    def __getitems__(self, batch: list[int]) -> list[Item] | Unreadable:
        try:
            items = [self[index] for index in batch]
        except UsageError as error:
            return Unreadable(error)
        if self.perturbation is None or not isinstance(batch, EpochBatch):
            return items
        return [self.perturbation(item, batch.epoch) for item in items]


def collate(items: Sequence[Item] | Unreadable) -> Batch | Unreadable:
    """Concatenate items to a batch without padding."""
    if isinstance(items, Unreadable):
        return items
    values, samples, labels, utterances = zip(*items, strict=True)
    joined = torch.from_numpy(np.concatenate(values))
    return Batch(
        audio=joined if joined.ndim == 1 else torch.empty(0, dtype=torch.int16),
        lengths=torch.tensor(samples),
        targets=torch.from_numpy(np.concatenate(labels)),
        target_lengths=torch.tensor([*map(len, labels)]),
        ids=[u.id for u in utterances],
        texts=[u.text for u in utterances],
        features=None if joined.ndim == 1 else joined,
    )


AHEAD = 2
"""Batches that the reading thread prepares in advance."""


class SpeechLoader(DataLoader):
    """Batches of a set in the order of `sampler`, read by `workers` single-threaded processes, or by this process.

    If reading only copies, as from a cache, a thread of this process reads ahead instead. Batches from other processes
    pass through newly allocated shared memory, which takes 6 to 8 times as long.

    pinned: whether to use pinned memory, from which a GPU copies while it computes.

    The sampler is used only when the first batch is needed. Lightning creates the first iterator before it sets the
    sampler's epoch, which matters when training is resumed.
    """

    dataset: Speech

    def __init__(self, speech: Speech, sampler: Iterable[list[int]], workers: int, *, pinned: bool = False) -> None:
        only_copies = not (speech.store.decodes or speech.perturbation)
        self.ahead = workers > 0 and only_copies
        workers = 0 if self.ahead else workers
        super().__init__(
            speech,
            batch_sampler=sampler,
            collate_fn=collate,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=pinned,
            # a separate generator, because the loader draws a seed per pass, and dropout uses torch's global stream
            generator=torch.Generator(),
        )

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]  # torch's return type is private
        """Raises UsageError if an utterance cannot be read, or if a worker died."""
        try:
            batches = super().__iter__()
            for batch in read_ahead(batches) if self.ahead else batches:
                if isinstance(batch, Unreadable):
                    raise UsageError(batch)
                yield batch
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise UsageError(f"a process that reads audio died: {error}") from error


def read_ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the batches in order while a thread prepares the next ones. NumPy, file reading and pinning release the
    global interpreter lock. An error is raised in place of its batch. The thread ends with the iteration.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="reader") as thread:
        try:
            waiting = deque(thread.submit(next, batches, None) for _ in range(AHEAD))
            while (batch := waiting.popleft().result()) is not None:
                waiting.append(thread.submit(next, batches, None))
                yield batch
        finally:
            thread.shutdown(cancel_futures=True)
