"""The network of Doetsch2016 §6 in plain PyTorch, and its frame error rate."""

from collections.abc import Callable

import torch
from torch import nn

from asr_benchmarks.toolkit.frames import Frames, Settings


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
