"""Labelled frames in the form of Doetsch2016 §6, drawn from fixed random points, in files that every engine reads."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asr_ablations.tools.errors import choices

if TYPE_CHECKING:
    import torch

STAY = 0.8
"""Probability that a frame keeps the label before it: five frames of 10 ms per state, as in a tied allophone."""

BLOCK = 256
"""Utterances that are drawn at once: 32 MB with 700 frames each."""


@dataclass(frozen=True)
class Settings:
    """What all engines have in common. chunk: in frames; batch: in chunks; device: cpu or cuda."""

    features: int
    labels: int
    chunk: int
    layers: int
    width: int
    batch: int
    lr: float
    momentum: float
    seed: int
    device: str


def generate(folder: Path, settings: Settings, *, utterances: int, frames: int, noise: float, held_out: float) -> None:
    """Write features.npy (U, T, D) float32, labels.npy (U, T) int32, the held-out utterances last, and train.txt, the
    number of utterances that are not held out.

    A label lasts some frames. A frame is its label's point, drawn once from a normal distribution in D dimensions, plus
    normal noise of the deviation `noise`. Raises UsageError for utterances that are not a whole number of chunks, and
    for a share of held-out utterances that leaves none to train on.
    """
    if frames % settings.chunk:
        raise choices("benchmark.frames", frames, f"a multiple of benchmark.chunk={settings.chunk}")
    for_test = max(1, round(held_out * utterances))
    if not 0 < held_out < 1 or for_test >= utterances:
        raise choices("benchmark.held_out", held_out, f"a share above 0 that leaves some of {utterances} utterances")
    draw = np.random.default_rng(settings.seed)
    points = draw.standard_normal((settings.labels, settings.features), dtype=np.float32)
    shape = (utterances, frames, settings.features)
    features = np.lib.format.open_memmap(folder / "features.npy", "w+", np.float32, shape)
    labels = np.lib.format.open_memmap(folder / "labels.npy", "w+", np.int32, shape[:2])
    for start in range(0, utterances, BLOCK):
        part = slice(start, min(start + BLOCK, utterances))
        labels[part] = _states(draw, labels[part].shape, settings.labels)
        features[part] = points[labels[part]]
        features[part] += noise * draw.standard_normal(features[part].shape, dtype=np.float32)
    (folder / "train.txt").write_text(str(utterances - for_test))


def _states(draw: np.random.Generator, shape: tuple[int, ...], labels: int) -> np.ndarray:
    visited = (draw.random(shape) > STAY).cumsum(axis=1)
    return np.take_along_axis(draw.integers(labels, size=(shape[0], shape[1] + 1)), visited, axis=1)


class Frames:
    """The files of `generate`, in chunks, which stay in the disk's cache until a batch needs them."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.features = np.load(folder / "features.npy", mmap_mode="r")
        self.labels = np.load(folder / "labels.npy", mmap_mode="r")
        self.settings = settings
        self.train_utterances = int((folder / "train.txt").read_text())
        self.chunks = self.labels.shape[1] // settings.chunk  # per utterance
        self._features = self.features.reshape(-1, settings.chunk, settings.features)
        self._labels = self.labels.reshape(-1, settings.chunk)

    def epoch(self, number: int, rank: int = 0, ranks: int = 1) -> list[np.ndarray]:
        """The chunks of each batch of an epoch, in RETURNN's order: the utterances in a new random order, their chunks
        one after another. Several ranks have different batches, the same number each; up to ranks - 1 of the last
        batches are left out.
        """
        order = np.random.default_rng([self.settings.seed, number]).permutation(self.train_utterances)
        chunks = (order[:, None] * self.chunks + np.arange(self.chunks)).ravel()
        batches = [chunks[start : start + self.settings.batch] for start in range(0, len(chunks), self.settings.batch)]
        return batches[rank : len(batches) - len(batches) % ranks : ranks]

    def held_out(self) -> list[np.ndarray]:
        """The chunks of each batch of the held-out utterances."""
        chunks = np.arange(self.train_utterances * self.chunks, len(self._labels))
        return [chunks[start : start + self.settings.batch] for start in range(0, len(chunks), self.settings.batch)]

    def read(self, chunks: np.ndarray) -> "tuple[torch.Tensor, torch.Tensor]":
        """Features (B, T, D) float32 and labels (B, T) int64 of these chunks, on the settings' device."""
        import torch

        x, y = torch.from_numpy(self._features[chunks]), torch.from_numpy(self._labels[chunks])
        return x.to(self.settings.device, non_blocking=True), y.to(self.settings.device, non_blocking=True).long()

    def batches(self, number: int, rank: int = 0, ranks: int = 1) -> "Iterator[tuple[torch.Tensor, torch.Tensor]]":
        """Features and labels, as of `read`, of each batch of an epoch."""
        return map(self.read, self.epoch(number, rank, ranks))
