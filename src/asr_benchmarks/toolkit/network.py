"""The data and the network of Doetsch2016 §6 in plain PyTorch, and the frame error rate."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from asr_verdicts.errors import choices

STAY = 0.8
"""Probability that a frame repeats the previous frame's label. A label then lasts five frames (50 ms) on average."""

BLOCK = 256
"""Number of utterances that are generated at a time. With 700 frames of 45 features each, they take 32 MB."""


@dataclass(frozen=True)
class Settings:
    """Settings that all engines share. chunk: frames per chunk. batch: chunks per batch. device: cpu or cuda."""

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
    """Write features.npy (U, T, D), labels.npy (U, T), and train.txt with the number of training utterances.

    Held-out utterances come last. A frame's features are its label's mean plus noise. Raise UsageError if `frames`
    is not a multiple of the chunk size, or if `held_out` is not a share that leaves training utterances.
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
    """The files written by `generate`, memory-mapped and divided into chunks."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.features = np.load(folder / "features.npy", mmap_mode="r")
        self.labels = np.load(folder / "labels.npy", mmap_mode="r")
        self.settings = settings
        self.train_utterances = int((folder / "train.txt").read_text())
        self.chunks = self.labels.shape[1] // settings.chunk  # per utterance
        self._features = self.features.reshape(-1, settings.chunk, settings.features)
        self._labels = self.labels.reshape(-1, settings.chunk)

    def epoch(self, number: int, rank: int = 0, ranks: int = 1) -> list[np.ndarray]:
        """Return one rank's batches of an epoch, each as an array of chunk indices.

        As in RETURNN, utterances are shuffled, and their chunks are consecutive. All ranks have the same number of
        batches.
        """
        order = np.random.default_rng([self.settings.seed, number]).permutation(self.train_utterances)
        chunks = (order[:, None] * self.chunks + np.arange(self.chunks)).ravel()
        batches = [chunks[start : start + self.settings.batch] for start in range(0, len(chunks), self.settings.batch)]
        return batches[rank : len(batches) - len(batches) % ranks : ranks]

    def held_out(self) -> list[np.ndarray]:
        """Return the batches of the held-out utterances, each as an array of chunk indices."""
        chunks = np.arange(self.train_utterances * self.chunks, len(self._labels))
        return [chunks[start : start + self.settings.batch] for start in range(0, len(chunks), self.settings.batch)]

    def read(self, chunks: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Read the chunks' features (B, T, D), float32, and labels (B, T), int64, onto the settings' device."""
        x, y = torch.from_numpy(self._features[chunks]), torch.from_numpy(self._labels[chunks])
        return x.to(self.settings.device, non_blocking=True), y.to(self.settings.device, non_blocking=True).long()

    def batches(self, number: int, rank: int = 0, ranks: int = 1) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the features and labels of each batch in one rank's epoch."""
        return map(self.read, self.epoch(number, rank, ranks))


class Network(nn.Module):
    """LSTM layers and a linear layer: features (B, T, D) → logits (B, T, V). The settings fix the initial weights."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.lstm = nn.LSTM(settings.features, settings.width, settings.layers, batch_first=True)
            self.output = nn.Linear(settings.width, settings.labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(self.lstm(x)[0])


class Engine(ABC):
    """A Trainer that trains the Network on the Frames in `folder`. A step is a whole epoch.

    All engines start with the same weights. Each rank counts only its own frames. config: the run's config as YAML.
    """

    def __init__(self, folder: str, settings: Settings, config: str) -> None:
        self.folder, self.settings = Path(folder), settings
        self.frames = Frames(self.folder, settings)

    @abstractmethod
    def compute_logits(self, x: torch.Tensor) -> torch.Tensor:
        """Compute logits (B, T, V) from features (B, T, D)."""

    def error_rate(self) -> float:
        """Return the frame error rate on the held-out utterances, in %."""
        wrong = count = 0
        with torch.no_grad():
            for chunks in self.frames.held_out():
                x, y = self.frames.read(chunks)
                wrong += int((self.compute_logits(x).argmax(dim=-1) != y).sum())
                count += y.numel()
        return 100 * wrong / count

    def device_memory(self) -> int | None:
        """Return the peak memory in bytes that torch reserved on the GPU, or None on a CPU."""
        return torch.cuda.max_memory_reserved() if self.settings.device == "cuda" else None
