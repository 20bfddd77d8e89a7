"""The network of Doetsch2016 §6 in plain PyTorch, and its frame error rate."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypedDict

import numpy as np
import torch
from torch import nn

from asr_verdicts.errors import choices

if TYPE_CHECKING:
    import torch


STAY = 0.8
"""Probability that a frame keeps the label before it: five frames of 10 ms per state, as in a tied allophone."""

BLOCK = 256
"""Utterances that are drawn at once: 32 MB with 700 frames each."""


@dataclass(frozen=True)
class Settings:
    """Settings common to all engines. chunk: in frames; batch: in chunks; device: cpu or cuda."""

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


class Network(nn.Module):
    """Features (B, T, D) → logits (B, T, V): unidirectional LSTM layers and a linear layer. The same settings give the
    same weights.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.lstm = nn.LSTM(settings.features, settings.width, settings.layers, batch_first=True)
            self.output = nn.Linear(settings.width, settings.labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(self.lstm(x)[0])


def frame_error_rate(logits: Callable[[torch.Tensor], torch.Tensor], frames: Frames) -> float:
    """Held-out frames whose best label is wrong, in %. logits: features (B, T, D) → (B, T, V)."""
    wrong = count = 0
    with torch.no_grad():
        for chunks in frames.held_out():
            x, y = frames.read(chunks)
            wrong += int((logits(x).argmax(dim=-1) != y).sum())
            count += y.numel()
    return 100 * wrong / count


def device_memory(device: str) -> int | None:
    """Bytes of the GPU that torch reserved at most; None on a CPU, where the memory of the process counts."""
    return torch.cuda.max_memory_reserved() if device == "cuda" else None


class Epoch(TypedDict):
    """A trained epoch: its seconds, its frames, and the mean loss in nats per frame."""

    seconds: float
    frames: int
    loss: float


class CountedEpoch(Epoch):
    """A trained epoch with the number of its steps."""

    steps: int


class About(TypedDict):
    """version: package and version; memory: bytes of the GPU that were reserved at most, None on a CPU."""

    version: str
    memory: int | None


class Engine(Protocol):
    """Trains the network of Settings on the Frames of a folder. It is called with the folder, the Settings, and the
    config of the run as YAML; every engine has the same first weights. A class attribute `requires` names the packages
    that it needs beyond this project's, `devices` those that it runs on, if not all.
    """

    def epoch(self) -> Epoch:
        """Train one epoch. Of several ranks, each counts its own frames."""

    def error_rate(self) -> float:
        """Frame error rate on the held-out frames, in %."""

    def about(self) -> About:
        """The engine's version and memory."""
