"""Turn the utterances of a corpus into batches: the dataset, its loader, and the LightningDataModule."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Dataset

from asr_ablations.data.alphabet import Alphabet, shortest_path
from asr_ablations.data.batch import Augmentation, Batch, BatchOrder, EpochBatch, Order, batch_size
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.description import (
    content_hash,
    count_words,
    describe_set,
    in_training,
    join_hashes,
    training_counts,
    warnings_of,
)
from asr_ablations.data.recording_cache import Cache, Store
from asr_ablations.data.utterance_selection import UNUSED, Screened, screen
from asr_ablations.data.utterances import Utterance, Utterances
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json

log = logging.getLogger(__name__)


class Item(NamedTuple):
    """An utterance with its int16 samples (S,) or float16 features (T, F), length in samples, and labels (L,)."""

    values: np.ndarray
    samples: int
    labels: np.ndarray
    utterance: Utterance


class Unreadable(str):
    """An error message about an unreadable utterance. An exception from a worker would include a long traceback."""


@dataclass(frozen=True)
class Perturbation:
    """Augments the waveforms of a training set. Random numbers depend only on (seed, epoch, utterance id)."""

    waveform: Callable[[np.ndarray, str, int, int], np.ndarray]
    """Function of (samples, utterance id, seed, epoch) that returns samples."""
    output_frames: Callable[[torch.Tensor], torch.Tensor]
    """Function from lengths in samples (B,) to numbers of model frames (B,)."""
    seed: int

    def __call__(self, item: Item, epoch: int) -> Item:
        """Return the augmented item, or the unchanged item if augmentation would make it too short for CTC."""
        samples = self.waveform(item.values, item.utterance.id, self.seed, epoch)
        shorter = len(samples) < len(item.values)
        if shorter and int(self.output_frames(torch.tensor([len(samples)]))) < shortest_path(item.labels):
            return item
        return item._replace(values=samples, samples=len(samples))


class Speech(Dataset):
    """A dataset of labelled utterances, read from `store`. Only batches whose epoch is known are augmented."""

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
        """Read an utterance. Raises UsageError with the utterance's id if it cannot be read."""
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
    """Concatenate items into a batch without padding. An error message is returned unchanged."""
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


class SpeechLoader(DataLoader):
    """Loads the batches of `sampler` in `workers` single-threaded processes, or in this process if `workers` is 0.

    If reading needs little CPU time, as it does with a cache, a thread of this process reads ahead instead. This is 6
    to 8 times as fast as passing batches from other processes through newly allocated shared memory.

    pinned: whether to use pinned memory, from which a GPU can copy batches while it computes
    """

    dataset: Speech

    def __init__(self, speech: Speech, sampler: Iterable[list[int]], workers: int, *, pinned: bool = False) -> None:
        self.ahead = workers > 0 and not (speech.store.decodes or speech.perturbation)
        workers = 0 if self.ahead else workers
        super().__init__(
            speech,
            batch_sampler=sampler,
            collate_fn=collate,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=pinned,
            # a separate generator: the loader draws a seed for each pass, which would change dropout's random numbers
            generator=torch.Generator(),
        )

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]  # torch's return type is private
        """Yield all batches. Raises UsageError if an utterance cannot be read, or if a worker dies."""
        # As a generator, this method does not use the sampler before the first batch is requested. This matters because
        # Lightning, when it resumes training, creates the first iterator before it sets the sampler's epoch.
        try:
            batches = super().__iter__()
            for batch in read_ahead(batches) if self.ahead else batches:
                if isinstance(batch, Unreadable):
                    raise UsageError(batch)
                yield batch
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise UsageError(f"a process that was reading audio died: {error}") from error


def read_ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the batches in order while a thread, which often releases the interpreter lock, prepares the next two."""
    with ThreadPoolExecutor(1, thread_name_prefix="reader") as thread:
        try:
            waiting = deque(thread.submit(next, batches, None) for _ in range(2))
            while (batch := waiting.popleft().result()) is not None:
                waiting.append(thread.submit(next, batches, None))
                yield batch
        finally:
            thread.shutdown(cancel_futures=True)


class SpeechData(pl.LightningDataModule):
    """Provides the training, validation and test batches of a corpus.

    - output_frames: function from lengths in samples (B,) to numbers of model frames (B,); training utterances with too
      few frames for CTC are left out
    - batches: maximum number of batches to use from the start of each set; None to use all
    """

    pinned = False
    """Whether loaders use pinned memory. `setup` sets it to True if the Trainer uses a GPU."""

    def __init__(
        self,
        corpus: Corpus,
        alphabet: Alphabet,
        order: Order,
        output_frames: Callable[[torch.Tensor], torch.Tensor],
        *,
        batch_count: int | None,
        batch_seconds: float | None,
        seed: int,
        augment_seed: int,
        workers: int,
        cache: Cache,
        augment: Augmentation,
        batches: int | None = None,
    ) -> None:
        super().__init__()
        self.corpus, self.alphabet, self.order, self.output_frames = corpus, alphabet, order, output_frames
        self.batch_count, self.batch_seconds = batch_count, batch_seconds
        self.seed, self.workers, self.cache, self.batches = seed, workers, cache, batches
        if cache.holds_features and augment.changes_waveforms:
            raise UsageError(
                "cache=features: expected pcm or none, because this augmentation changes waveforms and their features "
                "in every epoch"
            )
        self.perturbation = (
            Perturbation(augment.waveform, output_frames, augment_seed) if augment.changes_waveforms else None
        )
        self.left_out: list[str] = []
        self.sets: dict[str, Speech] = {}
        self.screened: dict[str, Screened] = {}
        self.in_training: dict[str, dict[str, int]] = {}
        self._resumed = {"epoch": 0, "batches": 0}

    def setup(self, stage: str | None = None) -> None:
        """Read all sets, but only once. Raises UsageError for missing data, and for faulty data if data.on_bad=stop."""
        if self.trainer is not None:
            self.pinned = self.trainer.strategy.root_device.type == "cuda"
        if self.sets:
            return
        self._add(screen(self.corpus, self.alphabet, self.output_frames))
        used = {name: screened.kept for name, screened in self.screened.items()}
        held_out = dict.fromkeys([*self.corpus.validation, *self.corpus.test])
        self.in_training = {name: in_training(used[name], used["train"]) for name in held_out}
        if not self.place()[0]:
            for warning in warnings_of(used, self.in_training, self.corpus):
                log.warning(warning)
        self.left_out = sorted(u.id for group in self.screened["train"].left_out.values() for u in group)
        longest = self.sets["train"].utterances[int(np.argmax(self.sets["train"].durations))]
        if self.batch_seconds is not None and longest.duration > self.batch_seconds:
            raise UsageError(
                f"batch.seconds={self.batch_seconds}: expected {longest.duration:.1f} or more, the duration of the "
                f"longest utterance, {longest.id}"
            )

    def read(self, name: str) -> None:
        """Read one set: "train", which may combine several splits, or another split. Raises UsageError like `setup`."""
        self._add(screen(self.corpus, self.alphabet, self.output_frames, [name]))

    def _add(self, sets: dict[str, Screened]) -> None:
        for name, screened in sets.items():
            used, readable = self._limit(screened.kept), _select_readable(screened)
            store = self.cache.open(name, readable if self.batches is None else used, self.workers)
            perturbation = self.perturbation if name == "train" else None
            self.sets[name] = Speech(used, self.alphabet, store, perturbation)
        self.screened |= sets

    def _limit(self, utterances: Utterances) -> Utterances:
        """Return the first utterances that fit into `batches` batches, but at least one; all if `batches` is None."""
        if self.batches is None:
            return utterances
        if self.batch_seconds is None:
            return utterances[: self.batches * (self.batch_count or 1)]
        ends = np.cumsum(utterances.column("duration"))
        return utterances[: max(1, int(np.searchsorted(ends, self.batches * self.batch_seconds, side="right")))]

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the utterances, transcripts and audio, which does not depend on the model or the alphabet."""
        return join_hashes(self._hashes)

    @cached_property
    def _hashes(self) -> dict[str, str]:
        """Content hash of all utterances in each set of the corpus, including unused ones."""
        return {name: content_hash(self.corpus.read_set(name)) for name in self.corpus.sets()}

    def describe(self) -> Json:
        """Return the contents of data.json: sets, alphabet, and counts of the other sets' words in the training set."""
        words = {name: count_words(screened.kept) for name, screened in self.screened.items()}
        sets = {}
        for name, screened in self.screened.items():
            sha256 = None if screened.left_out else self._hashes[name]
            sets[name] = describe_set(screened, self.in_training.get(name), words[name], sha256)
        return {
            "fingerprint": self.fingerprint,
            "sets": sets,
            "training_counts": training_counts(words.pop("train"), words.values()),
            "alphabet": self.alphabet.key,
            "separation": self.alphabet.separation,
        }

    def train_dataloader(self) -> SpeechLoader:
        rank, ranks = self.place()
        size = batch_size(self.batch_count, self.batch_seconds, ranks)
        order = BatchOrder(self.sets["train"].durations, size, self.order, self.seed, rank, ranks)
        order.resume(self._resumed["epoch"], self._resumed["batches"])
        return SpeechLoader(self.sets["train"], order, self.workers, pinned=self.pinned)

    def state_dict(self) -> dict[str, int]:
        """Return the position in training: the epoch, and the number of its batches that each rank has completed."""
        if self.trainer is None:
            return dict(self._resumed)
        loop = self.trainer.fit_loop
        epochs, batches = (vars(progress.current) for progress in (loop.epoch_progress, loop.epoch_loop.batch_progress))
        # `processed` counts a batch after its training step, and an epoch after the validation that ends it.
        # Between epochs the batch counter keeps its value from the end of the last epoch.
        within = epochs["started"] > epochs["processed"]
        return {"epoch": epochs["processed"], "batches": batches["processed"] if within else 0}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Resume from a position in training. Lightning calls this before it creates the training batches."""
        self._resumed = state_dict

    def val_dataloader(self) -> list[SpeechLoader]:
        """Return a loader for this rank's share of each validation set."""
        rank, ranks = self.place()
        # Lightning needs values from every rank. If a set has fewer utterances than there are ranks, all ranks read the
        # whole set, which gives the same means.
        return [
            self.evaluation_dataloader(name, *((rank, ranks) if len(self.sets[name]) >= ranks else (0, 1)))
            for name in self.corpus.validation
        ]

    def place(self) -> tuple[int, int]:
        """Return (rank of this process, number of ranks)."""
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    def evaluation_dataloader(self, name: str, rank: int = 0, ranks: int = 1) -> SpeechLoader:
        """Return a loader for a whole set, or for one rank's share of it."""
        durations = self.sets[name].durations
        order = np.argsort(-durations, kind="stable")[rank::ranks]  # longest first, to detect a lack of memory at once
        size = batch_size(self.batch_count, self.batch_seconds, ranks=1)
        batches, begin = [], 0
        while begin < len(order):
            end = begin + size.count(float(durations[order[begin]]))
            batches.append(order[begin:end].tolist())
            begin = end
        return SpeechLoader(self.sets[name], batches, self.workers, pinned=self.pinned)


def _select_readable(screened: Screened) -> Utterances:
    """Return the utterances to cache. All arms share a cache, so it includes utterances that only this model skips."""
    unused = [u for reason in UNUSED for u in screened.left_out.get(reason, [])]
    readable = Utterances.join([screened.kept, Utterances.convert(unused)])
    ids = [*readable.strings("id")]
    return readable.take(np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.int64))
