"""Recordings to words: pieces in batches of similar length through the model, then decoder and alignment."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.utterance import Batch
from asr_ablations.training.assembly import device_count, trainer
from asr_ablations.training.load import Trained
from asr_ablations.transcription.pieces import cut
from asr_ablations.transcription.word_times import Word, align

BATCHES_AT_ONCE = 16
"""Batches that are read before they are sorted by length: more would waste less padding and hold more audio."""


@dataclass(frozen=True)
class Piece:
    """A stretch of a recording; start, end in seconds."""

    start: float
    end: float
    words: list[Word]

    @property
    def text(self) -> str:
        return " ".join(word.word for word in self.words)


@dataclass
class _Waiting:
    samples: np.ndarray
    spans: list[tuple[int, int]]


class Recogniser:
    """A trained model with a decoder. longest: seconds of a piece; batch_seconds: of audio at once, padding counted."""

    def __init__(self, trained: Trained, decoder: Any, *, longest: float, batch_seconds: float) -> None:
        devices = device_count(trained.cfg)
        self.device = torch.device("cuda" if devices else "cpu")
        self.precision = trainer(trained.cfg, devices, [], []).precision_plugin.forward_context
        self.task, self.decoder = trained.task.to(self.device), decoder
        self.longest, self.batch_samples = longest, round(batch_seconds * SAMPLE_RATE)
        probe = 10_000 * SAMPLE_RATE
        self.step = round(probe / int(trained.task.output_frames(torch.tensor([probe])))) / SAMPLE_RATE

    def __call__(
        self, recordings: Iterable[np.ndarray], advance: Callable[[float], None] | None = None
    ) -> Iterator[list[Piece]]:
        """The pieces of each recording, int16 (S,) at 16 kHz, in order. advance: called with seconds that are done.

        Recordings are taken as they come, several batches ahead.
        """
        group: list[_Waiting] = []
        for samples in recordings:
            group.append(_Waiting(samples, cut(samples, self.longest)))
            if sum(len(one.samples) for one in group) >= BATCHES_AT_ONCE * self.batch_samples:
                yield from self._group(group, advance)
                group = []
        yield from self._group(group, advance)

    def _group(self, group: list[_Waiting], advance: Callable[[float], None] | None) -> Iterator[list[Piece]]:
        places = [(i, span) for i, one in enumerate(group) for span in one.spans]
        found: dict[tuple[int, tuple[int, int]], Piece] = {}
        for batch in batches(places, self.batch_samples):
            pieces = self._batch([group[i].samples[first:end] for i, (first, end) in batch], [s for _, s in batch])
            found.update(zip(batch, pieces, strict=True))
            if advance is not None:
                advance(sum(end - first for _, (first, end) in batch) / SAMPLE_RATE)
        for i, one in enumerate(group):
            yield [found[i, span] for span in one.spans]

    def _batch(self, audio: list[np.ndarray], spans: list[tuple[int, int]]) -> list[Piece]:
        none = torch.zeros(len(audio), dtype=torch.long)
        samples = torch.from_numpy(np.concatenate(audio))
        batch = Batch(samples, torch.tensor([len(a) for a in audio]), none[:0], none, [""] * len(audio), [])
        with torch.inference_mode(), self.precision():
            log_probs, lengths = self.task(batch.to(self.device))
        log_probs = log_probs.cpu()
        texts = self.decoder(log_probs, lengths)
        made = []
        for row, length, text, (first, end) in zip(log_probs, lengths.tolist(), texts, spans, strict=True):
            start = first / SAMPLE_RATE
            words = align(row[:length], text, self.task.alphabet, self.step, start)
            made.append(Piece(start, end / SAMPLE_RATE, words))
        return made


def batches(places: list[tuple[int, tuple[int, int]]], limit: int) -> Iterator[list[tuple[int, tuple[int, int]]]]:
    """All places, the longest first, in batches whose padded size is `limit` samples at the most, or of one place."""
    batch: list[tuple[int, tuple[int, int]]] = []
    longest = 0
    for place in sorted(places, key=lambda place: place[1][0] - place[1][1]):
        if batch and longest * (len(batch) + 1) > limit:
            yield batch
            batch = []
        if not batch:
            longest = place[1][1] - place[1][0]
        batch.append(place)
    if batch:
        yield batch
