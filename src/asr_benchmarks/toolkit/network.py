"""The network of Doetsch2016 §6 in plain PyTorch, and its frame error rate."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from asr_verdicts.errors import choices

STAY = 0.8
"""Probability that a frame keeps the previous label: five frames of 10 ms per state, as in a tied allophone."""

BLOCK = 256
"""Utterances drawn at once: 32 MB with 700 frames each."""


@dataclass(frozen=True)
class Settings:
    """Settings of all engines. chunk: in frames; batch: in chunks; device: cpu or cuda."""

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
    """Write features.npy (U, T, D), labels.npy (U, T), and train.txt with the number of training utterances. Held-out
    utterances come last. A frame is its label's point plus noise. Raises UsageError if frames are not whole chunks, or
    no utterances are left to train on.
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
        count = len(labels[part])
        visited = (draw.random((count, frames)) > STAY).cumsum(axis=1)
        labels[part] = np.take_along_axis(draw.integers(settings.labels, size=(count, frames + 1)), visited, axis=1)
        features[part] = points[labels[part]]
        features[part] += noise * draw.standard_normal(features[part].shape, dtype=np.float32)
    (folder / "train.txt").write_text(str(utterances - for_test))


class Frames:
    """The files of `generate` in chunks, memory-mapped."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.features = np.load(folder / "features.npy", mmap_mode="r")
        self.labels = np.load(folder / "labels.npy", mmap_mode="r")
        self.settings = settings
        self.train_utterances = int((folder / "train.txt").read_text())
        self.chunks = self.labels.shape[1] // settings.chunk  # per utterance
        self._features = self.features.reshape(-1, settings.chunk, settings.features)
        self._labels = self.labels.reshape(-1, settings.chunk)

    def epoch(self, number: int, rank: int = 0, ranks: int = 1) -> list[np.ndarray]:
        """List the chunks of each batch of an epoch in RETURNN's order: shuffled utterances, consecutive chunks. Ranks
        have different batches, but the same number.
        """
        order = np.random.default_rng([self.settings.seed, number]).permutation(self.train_utterances)
        chunks = (order[:, None] * self.chunks + np.arange(self.chunks)).ravel()
        batches = [chunks[start : start + self.settings.batch] for start in range(0, len(chunks), self.settings.batch)]
        return batches[rank : len(batches) - len(batches) % ranks : ranks]

    def held_out(self) -> list[np.ndarray]:
        """List the chunks of each batch of the held-out utterances."""
        chunks = np.arange(self.train_utterances * self.chunks, len(self._labels))
        return [chunks[start : start + self.settings.batch] for start in range(0, len(chunks), self.settings.batch)]

    def read(self, chunks: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Read features (B, T, D) float32 and labels (B, T) int64 of chunks to the settings' device."""
        x, y = torch.from_numpy(self._features[chunks]), torch.from_numpy(self._labels[chunks])
        return x.to(self.settings.device, non_blocking=True), y.to(self.settings.device, non_blocking=True).long()

    def batches(self, number: int, rank: int = 0, ranks: int = 1) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Read features and labels of each batch of an epoch."""
        return map(self.read, self.epoch(number, rank, ranks))


class Network(nn.Module):
    """Features (B, T, D) → logits (B, T, V): LSTM layers and a linear layer. Equal settings give equal weights."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.lstm = nn.LSTM(settings.features, settings.width, settings.layers, batch_first=True)
            self.output = nn.Linear(settings.width, settings.labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(self.lstm(x)[0])


def frame_error_rate(logits: Callable[[torch.Tensor], torch.Tensor], frames: Frames) -> float:
    """Compute the share of held-out frames whose best label is wrong, in %. logits: features (B, T, D) → (B, T, V)."""
    wrong = count = 0
    with torch.no_grad():
        for chunks in frames.held_out():
            x, y = frames.read(chunks)
            wrong += int((logits(x).argmax(dim=-1) != y).sum())
            count += y.numel()
    return 100 * wrong / count


class Engine(ABC):
    """A Trainer of the Network on the Frames of a folder. A step is an epoch. Each rank counts its own frames. All
    engines have the same first weights. config: of the run, as YAML.
    """

    def __init__(self, folder: str, settings: Settings, config: str) -> None:
        self.folder, self.settings = Path(folder), settings
        self.frames = Frames(self.folder, settings)

    @abstractmethod
    def compute_logits(self, x: torch.Tensor) -> torch.Tensor:
        """Compute logits (B, T, V) from features (B, T, D)."""

    def error_rate(self) -> float:
        return frame_error_rate(self.compute_logits, self.frames)

    def device_memory(self) -> int | None:
        """Return the most GPU bytes that torch reserved; None on a CPU, where the process's memory counts."""
        return torch.cuda.max_memory_reserved() if self.settings.device == "cuda" else None
