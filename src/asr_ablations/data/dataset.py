"""The dataset of utterances, and the loader of its batches."""

import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from asr_ablations.data.alphabet import Alphabet, shortest_path
from asr_ablations.data.batch import Batch
from asr_ablations.data.batch_order import EpochBatch
from asr_ablations.data.recording_cache import JoiningStore, Recording, Store
from asr_ablations.data.utterances import Utterance, Utterances
from asr_verdicts.errors import UsageError


class Item(NamedTuple):
    """An utterance after reading: int16 samples (S,) or float16 features (T, F), its length in samples, labels (L,)."""

    values: np.ndarray
    samples: int
    labels: np.ndarray
    utterance: Utterance


class Items(list[Item]):
    """The utterances of a batch. joined: their concatenated values, if they were read in this form."""

    joined: np.ndarray | None = None


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
        self.reading: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.utterances)

    @property
    def needs_processes(self) -> bool:
        """Return whether reading needs CPU time (decoding, augmentation) rather than only copying."""
        return self.store.decodes or self.perturbation is not None

    def __getitem__(self, index: int) -> Item:
        """Raises UsageError with the utterance's id if it cannot be read."""
        return self._read_items([index])[0]

    def _read_items(self, batch: Sequence[int]) -> Items:
        utterances = [self.utterances[index] for index in batch]
        joined = None
        if isinstance(self.store, JoiningStore):
            self._note(batch[-1])
            joined, recordings = self.store.read_joined(utterances)
        else:
            recordings = [self._read_recording(index, u) for index, u in zip(batch, utterances, strict=True)]
        labels, counts = self.alphabet.encode_all([u.text for u in utterances])
        assert labels.min(initial=0) >= 0, "screening leaves out texts with foreign characters"
        ends = counts.cumsum()
        items = Items(
            Item(values, samples, labels[end - count : end], utterance)
            for (values, samples), utterance, count, end in zip(recordings, utterances, counts, ends, strict=True)
        )
        items.joined = joined
        return items

    def _read_recording(self, index: int, utterance: Utterance) -> Recording:
        self._note(index)
        try:
            return self.store.read(utterance)
        except UsageError as error:
            raise UsageError(f"utterance {utterance.id}: {error}") from error

    def __getitems__(self, batch: list[int]) -> list[Item] | Unreadable:
        try:
            items = self._read_items(batch)
        except UsageError as error:
            return Unreadable(error)
        if self.perturbation is None or not isinstance(batch, EpochBatch):
            return items
        return [self.perturbation(item, batch.epoch) for item in items]

    def watch(self, workers: int) -> None:
        """Record in shared memory which utterance each worker is reading, for `abandoned`."""
        self.reading = torch.full((max(1, workers), 2), -1, dtype=torch.long).share_memory_().numpy()

    def _note(self, index: int) -> None:
        worker = get_worker_info()
        if worker is not None and self.reading is not None:
            self.reading[worker.id] = os.getpid(), index

    def abandoned(self, alive: set[int | None]) -> list[Utterance]:
        """Return the utterances that dead workers read last. alive: process ids."""
        watched = [] if self.reading is None else self.reading.tolist()
        return [self.utterances[index] for pid, index in watched if index >= 0 and pid not in alive]


def collate(items: Sequence[Item] | Unreadable) -> Batch | Unreadable:
    """Concatenate items to a batch without padding."""
    if isinstance(items, Unreadable):
        return items
    values, samples, labels, utterances = zip(*items, strict=True)
    in_place = items.joined if isinstance(items, Items) else None
    joined = torch.from_numpy(np.concatenate(values) if in_place is None else in_place)
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
        self.ahead = workers > 0 and not speech.needs_processes
        if self.ahead:
            workers = 0
        if workers:
            speech.watch(workers)
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
        """Raises UsageError for an utterance that cannot be read, or at which a worker died."""
        try:
            batches = super().__iter__()
            for batch in read_ahead(batches) if self.ahead else batches:
                if isinstance(batch, Unreadable):
                    raise UsageError(batch)
                yield batch
        except (RuntimeError, OSError, EOFError) as error:
            raise explained(error, self.dataset) from error


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


def explained(error: BaseException, speech: Speech) -> BaseException:
    """Return an error with the utterance's name if `error` means that a worker died, or else the error itself.

    torch reports "DataLoader worker …", or reaches the end of a pipe when it fetches a dead worker's last batch.
    """
    if not isinstance(error, (OSError, EOFError)) and "DataLoader worker" not in str(error):
        return error
    names = ", ".join(f"{u.id} ({u.audio})" for u in _find_abandoned(speech))
    return UsageError(f"a process that reads audio died at utterance {names}") if names else error


def _find_abandoned(speech: Speech) -> list[Utterance]:
    # a process closes its pipes shortly before it ends, so several checks may be necessary
    for _ in range(20):
        with suppress(RuntimeError):  # torch's SIGCHLD handler may raise again here
            if utterances := speech.abandoned({process.pid for process in multiprocessing.active_children()}):
                return utterances
            time.sleep(0.05)
    return []
