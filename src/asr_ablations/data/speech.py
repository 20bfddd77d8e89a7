"""Utterances as a dataset, and several of them as a batch."""

from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from asr_ablations.data import audio
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.utterance import Batch, Utterance

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


class SpeechLoader(DataLoader):
    """A DataLoader that asks its sampler for the batches only when the first is wanted.

    Lightning makes the first iterator of a fit before it tells the sampler the epoch, which matters after a resume.
    """

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        yield from super().__iter__()
