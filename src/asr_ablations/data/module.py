"""The LightningDataModule: utterances → batches."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from asr_ablations.data import audio
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.fingerprint import describe_set, fingerprint
from asr_ablations.data.screening import Screened, screen
from asr_ablations.data.utterance import Batch, Utterance
from asr_ablations.errors import UsageError
from asr_ablations.seeds import generator

Order = Callable[[np.ndarray, int, int, np.random.Generator], list[np.ndarray]]
REMEMBERED_BYTES = 2 * 1024**3
"""Audio kept in memory after the first read, per process."""


class Speech(Dataset):
    """Utterances as (int16 samples, labels, utterance)."""

    def __init__(self, utterances: list[Utterance], alphabet: Alphabet) -> None:
        self.utterances = utterances
        self.labels = [alphabet.encode(u.text) for u in utterances]
        self.durations = np.array([u.duration for u in utterances])
        self._remembered: dict[int, np.ndarray] = {}
        self._remembered_bytes = 0

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, index: int) -> tuple[np.ndarray, list[int], Utterance]:
        samples = self._remembered.get(index)
        utterance = self.utterances[index]
        if samples is None:
            samples = audio.read(utterance.audio, utterance.offset, utterance.duration)
            if self._remembered_bytes + samples.nbytes <= REMEMBERED_BYTES:
                self._remembered[index] = samples
                self._remembered_bytes += samples.nbytes
        return samples, self.labels[index], utterance


def collate(items: list[tuple[np.ndarray, list[int], Utterance]]) -> Batch:
    """A ragged batch."""
    samples, labels, utterances = zip(*items, strict=True)
    return Batch(
        audio=torch.from_numpy(np.concatenate(samples)),
        lengths=torch.tensor([len(s) for s in samples]),
        targets=torch.tensor([label for utterance_labels in labels for label in utterance_labels], dtype=torch.long),
        target_lengths=torch.tensor([len(x) for x in labels]),
        ids=[u.id for u in utterances],
        texts=[u.text for u in utterances],
    )


class BatchOrder(Sampler[list[int]]):
    """The batches of an epoch, which depend on (seed, epoch) only; rank r of n takes every n-th.

    Every rank gets the same number of batches: those that do not divide are filled from the epoch's first.
    """

    def __init__(self, durations: np.ndarray, batch_size: int, order: Order, seed: int, rank: int, ranks: int) -> None:
        self.durations, self.batch_size, self.order, self.seed = durations, batch_size, order, seed
        self.rank, self.ranks = rank, ranks
        self.epoch = 0
        self._resumed = (0, 0)
        self.sampler = self  # Lightning calls batch_sampler.sampler.set_epoch before it asks for the batches

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def resume(self, epoch: int, done: int) -> None:
        """Leave out the first `done` batches of `epoch`, which comes next."""
        self.epoch, self._resumed = epoch, (epoch, done)

    def batches(self) -> list[list[int]]:
        drawn = self.order(self.durations, self.batch_size, self.epoch, generator(self.seed, "order", self.epoch))
        turns = range(self.rank, -(-len(drawn) // self.ranks) * self.ranks, self.ranks)
        return [drawn[i % len(drawn)].tolist() for i in turns]

    def __iter__(self) -> Iterator[list[int]]:
        epoch, done = self._resumed
        return iter(self.batches()[done if self.epoch == epoch else 0 :])

    def __len__(self) -> int:
        whole = -(-len(self.durations) // self.batch_size)
        return -(-whole // self.ranks)


class SpeechData(pl.LightningDataModule):
    """Batches of a corpus. `output_frames` maps lengths in samples (B,) to the model's output frames (B,): utterances
    with too few of them for their transcript cannot be learnt by CTC and are left out of training, by name.
    """

    def __init__(
        self,
        corpus: Corpus,
        alphabet: Alphabet,
        order: Order,
        output_frames: Callable[[torch.Tensor], torch.Tensor],
        *,
        batch_size: int,
        seed: int,
        workers: int,
    ) -> None:
        super().__init__()
        if batch_size < 1:
            raise UsageError(f"batch.size={batch_size}: expected 1 or more")
        self.corpus, self.alphabet, self.order, self.output_frames = corpus, alphabet, order, output_frames
        self.batch_size, self.seed, self.workers = batch_size, seed, workers
        self.left_out: list[str] = []
        self.sets: dict[str, Speech] = {}
        self.screened: dict[str, Screened] = {}
        self._position = (0, 0)

    def setup(self, stage: str | None = None) -> None:
        """Read every split once. Raises UsageError for missing data, and for bad data that are not to be skipped."""
        if self.sets:
            return
        self.screened = screen(self.corpus, self.alphabet, self.output_frames)
        self.sets = {name: Speech(screened.kept, self.alphabet) for name, screened in self.screened.items()}
        self.left_out = sorted(u.id for out in self.screened["train"].left_out.values() for u in out)

    @cached_property
    def fingerprint(self) -> str:
        """Any change of the corpus changes it: utterances, texts, audio. The model and its alphabet do not."""
        return fingerprint(self.screened)

    def resume(self, epoch: int, batches: int) -> None:
        """Go on after that many batches of an epoch."""
        self._position = (epoch, batches)

    def describe(self) -> dict[str, Any]:
        """For the record: what each set holds, a hash of it, and what was left out, by reason and id."""
        sets = {name: describe_set(screened) for name, screened in self.screened.items()}
        alphabet = {"alphabet": self.alphabet.characters, "separation": self.alphabet.separation}
        return {"fingerprint": self.fingerprint, "sets": sets, **alphabet}

    def _loader(self, name: str, sampler: Sampler[list[int]]) -> DataLoader:
        pin = torch.cuda.is_available()
        return DataLoader(
            self.sets[name],
            batch_sampler=sampler,
            collate_fn=collate,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            pin_memory=pin,
            # of its own: a loader draws a seed at each pass, and torch's global stream belongs to dropout
            generator=torch.Generator(),
        )

    def train_dataloader(self) -> DataLoader:
        rank, ranks = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        durations = self.sets["train"].durations
        order = BatchOrder(durations, self.batch_size, self.order, self.seed, rank, ranks)
        order.resume(*self._position)
        return self._loader("train", order)

    def val_dataloader(self) -> list[DataLoader]:
        return [self.evaluation_dataloader(name) for name in self.corpus.validation]

    def evaluation_dataloader(self, name: str) -> DataLoader:
        """One split, the longest utterances first, so that too little memory shows at once."""
        durations = self.sets[name].durations
        order = np.argsort(-durations, kind="stable")
        size = self.batch_size
        return self._loader(name, [order[i : i + size].tolist() for i in range(0, len(order), size)])  # type: ignore[arg-type]
