"""Recognise recordings: cut them into pieces, batch pieces of similar length, then decode and align each batch."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.batch import unlabelled_batch
from asr_ablations.data.word_times import Word, align
from asr_ablations.training.assembly import device_count, trainer
from asr_ablations.training.contracts import Decoder
from asr_ablations.training.trained_model import Trained

HOP = SAMPLE_RATE // 100
PAUSE = 0.3
"""Seconds over which the level is averaged, long enough to ignore the 0.1 s of silence in a stop consonant."""


def cut(samples: np.ndarray, longest: float) -> list[tuple[int, int]]:
    """Cut int16 audio (S,) at 16 kHz into pieces of at most `longest` seconds. Return each piece's (first, end) sample.

    The pieces cover all samples without overlap. Every piece but the last ends in the middle of the quietest 0.3 s of
    its second half. The level is averaged in dB, because a click in a pause would dominate an average of energies. If
    there is no pause, the cut may fall inside a word.
    """
    limit = round(longest * SAMPLE_RATE)
    borders = [0]
    loudness = _measure_loudness(samples) if len(samples) > limit else np.empty(0)
    while len(samples) - (first := borders[-1]) > limit:
        frames = loudness[(first + limit // 2) // HOP : (first + limit) // HOP]
        border = ((first + limit // 2) // HOP + _find_quietest(frames)) * HOP
        borders.append(min(max(border, first + 1), first + limit))
    borders.append(len(samples))
    return [(first, end) for first, end in pairwise(borders) if end > first]


def _measure_loudness(samples: np.ndarray) -> np.ndarray:
    """Return the level in dB of every 10 ms, averaged over 0.3 s, with shape (max(1, S // 160),)."""
    count = max(1, len(samples) // HOP)
    decibels = np.empty(count, dtype=np.float32)
    for i in range(0, count, 6000):  # process one minute at a time, because an hour in float64 takes 0.5 GB
        part = samples[i * HOP : min(i + 6000, count) * HOP].astype(np.float64).reshape(-1, HOP)
        decibels[i : i + len(part)] = 10 * np.log10(np.square(part).mean(axis=1) + 1)
    width = round(PAUSE * SAMPLE_RATE / HOP)
    padded = np.pad(decibels, (width // 2, width - 1 - width // 2), mode="edge")
    averaged: np.ndarray = np.convolve(padded, np.full(width, 1 / width), mode="valid")
    return averaged


def _find_quietest(values: np.ndarray) -> int:
    """Return the index of the lowest value, the middle one if adjacent values are equally low; 0 if there are none."""
    if not len(values):
        return 0
    first = int(values.argmin())
    higher = np.flatnonzero(values[first:] > values[first] + 1e-3)
    return first + (int(higher[0]) if len(higher) else len(values) - first) // 2


BATCHES_AT_ONCE = 16
"""Number of batches whose audio is read before sorting it by length. A larger number saves padding but takes memory."""

Span = tuple[int, int]  # index of a piece's first sample in its recording, and of the sample after its last
Place = tuple[int, Span]  # index of a recording in its group, and the span of one of its pieces
Recording = tuple[np.ndarray, list[Span]]  # samples of a recording, and the spans of its pieces


@dataclass(frozen=True)
class Piece:
    """A piece of a recording with its recognised words. start, end: seconds from the start of the recording."""

    start: float
    end: float
    words: list[Word]

    @property
    def text(self) -> str:
        return " ".join(word.word for word in self.words)


class Recogniser:
    """Recognises recordings with a trained model and a decoder.

    longest: maximum length of a piece in seconds
    batch_seconds: maximum total length of a batch in seconds, including padding
    """

    def __init__(self, trained: Trained, decoder: Decoder, *, longest: float, batch_seconds: float) -> None:
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
        """Yield the recognised pieces of each recording, int16 (S,). advance: receives the seconds just recognised."""
        group: list[Recording] = []
        for samples in recordings:
            group.append((samples, cut(samples, self.longest)))
            if sum(len(recording) for recording, _ in group) >= BATCHES_AT_ONCE * self.batch_samples:
                yield from self._recognise_group(group, advance)
                group = []
        yield from self._recognise_group(group, advance)

    def _recognise_group(
        self, group: list[Recording], advance: Callable[[float], None] | None
    ) -> Iterator[list[Piece]]:
        places = [(i, span) for i, (_, spans) in enumerate(group) for span in spans]
        recognised: dict[Place, Piece] = {}
        for batch in batches(places, self.batch_samples):
            audio = [group[i][0][first:end] for i, (first, end) in batch]
            recognised.update(zip(batch, self._recognise_batch(audio, [span for _, span in batch]), strict=True))
            if advance is not None:
                advance(sum(end - first for _, (first, end) in batch) / SAMPLE_RATE)
        for i, (_, spans) in enumerate(group):
            yield [recognised[i, span] for span in spans]

    def _recognise_batch(self, audio: list[np.ndarray], spans: list[Span]) -> list[Piece]:
        with torch.inference_mode(), self.precision():
            log_probs, lengths = self.task(unlabelled_batch(audio).to(self.device))
        log_probs = log_probs.cpu()
        texts = self.decoder(log_probs, lengths)
        pieces = []
        for row, length, text, span in zip(log_probs, lengths.tolist(), texts, spans, strict=True):
            start, end = (sample / SAMPLE_RATE for sample in span)
            pieces.append(Piece(start, end, align(row[:length], text, self.task.alphabet, self.step, start)))
        return pieces


def batches(places: list[Place], limit: int) -> Iterator[list[Place]]:
    """Yield batches of pieces, longest first: at most `limit` samples including padding, or a single longer piece."""
    batch: list[Place] = []
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
